# A mistake in the declaration of an own op costs at most ten lines of the compiler's text, which say what is wrong.
#
# cmake -DCOMPILER=g++ -DINCLUDE=<folder of nixie/> -DFOLDER=<folder to write to> -P formula_mistakes.cmake

# Parsed once.
file(WRITE ${FOLDER}/ops.h "#include \"nixie/core/ops/elementwise.h\"
#include \"nixie/core/ops/ops.h\"
")
set(compiler ${COMPILER} -std=c++20 -I${INCLUDE})
execute_process(COMMAND ${compiler} ${FOLDER}/ops.h -o ${FOLDER}/ops.h.gch COMMAND_ERROR_IS_FATAL ANY)

function(compile name formula gradient)
  file(WRITE ${FOLDER}/${name}.cpp "#include \"ops.h\"
using namespace nixie;
using T = const Tensor&;
const Elementwise op{\"op\", ${formula}, ${gradient}};
")
  execute_process(COMMAND ${compiler} -fsyntax-only ${FOLDER}/${name}.cpp ERROR_VARIABLE text RESULT_VARIABLE status)
  set(text "${text}" PARENT_SCOPE)
  set(status ${status} PARENT_SCOPE)
endfunction()

function(expect_mistake name formula gradient expected)
  compile(${name} "${formula}" "${gradient}")
  string(REGEX MATCHALL "\n" ends "${text}")
  list(LENGTH ends lines)
  string(FIND "${text}" "${expected}" at)
  if(status EQUAL 0)
    message(SEND_ERROR "${name}: it compiles")
  elseif(lines GREATER 10 OR at EQUAL -1)
    message(SEND_ERROR "${name}: ${lines} lines, expected at most 10 with \"${expected}\":\n${text}")
  endif()
endfunction()

set(unary "[](T g, T, T) { return Gradients{g}; }")
compile(none "[](auto x) { return where(x < 0, -1, sigmoid(x)); }" "${unary}")
if(NOT status EQUAL 0)
  message(SEND_ERROR "an op without mistakes does not compile:\n${text}")
endif()
set(has_no_if "a formula has no if, ?: or loop; use where(condition, a, b)")
set(returns "a formula returns a number")
set(gradient_takes "a gradient takes the result's gradient, the result and each input of the formula, and returns Gradients")
expect_mistake(unknown_function "[](auto x) { return frobnicate(x); }" "${unary}" "'frobnicate' was not declared")
expect_mistake(if "[](auto x) { if (x < 0) return -x; return x; }" "${unary}" "${has_no_if}")
expect_mistake(ternary "[](auto x, auto y) { return x < y ? y : x; }" "[](T g, T, T, T) { return Gradients{g, g}; }"
               "${has_no_if}")
expect_mistake(loop "[](auto x) { while (x > 1) x = x / 2; return x; }" "${unary}" "${has_no_if}")
expect_mistake(returns_text "[](auto) { return \"1\"; }" "${unary}" "${returns}")
expect_mistake(returns_nothing "[](auto x) { x + 1; }" "${unary}" "${returns}")
expect_mistake(no_inputs "[] { return 1; }" "[](T g, T) { return Gradients{g}; }" "a formula takes 1 to 16 numbers")
expect_mistake(two_for_one "[](auto x) { return exp(x, 2); }" "${unary}" "takes another number of arguments")
expect_mistake(one_for_two "[](auto x) { return pow(x); }" "${unary}" "takes another number of arguments")
expect_mistake(gradient_of_one_input "[](auto x, auto y) { return x * y; }" "${unary}" "${gradient_takes}")
expect_mistake(gradient_returns_a_tensor "[](auto x) { return x; }" "[](T g, T, T) { return g; }" "${gradient_takes}")
