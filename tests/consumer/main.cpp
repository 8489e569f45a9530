// Runs the installed library from a program that brings all of nixie's names into scope.
#include <iostream>

#include "core/shape.h"

using namespace nixie;

int main() {
  Shape shape = broadcast(Shape{4, 1}, Shape{3});
  std::cout << to_string(shape) << "\n";
  return shape == Shape{4, 3} ? 0 : 1;
}
