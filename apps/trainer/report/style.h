// The style sheet of run pages: light or dark like the reader's system, one column on a phone.
#pragma once

namespace nixie {

inline constexpr const char* kPageStyle = R"(
:root { color-scheme: light dark; --ground: #ffffff; --panel: #f6f8fa; --text: #1f2328; --soft: #59636e; --edge: #d1d9e0;
  --c0: #0969da; --c1: #bc4c00; --c2: #1a7f37; --c3: #8250df; --c4: #bf3989; --c5: #9a6700; --c6: #0b7285; --c7: #57606a;
  --good: 26,127,55; --bad: 207,34,46; }
@media (prefers-color-scheme: dark) { :root { --ground: #0d1117; --panel: #161b22; --text: #e6edf3; --soft: #9198a1;
  --edge: #3d444d; --c0: #58a6ff; --c1: #f0883e; --c2: #3fb950; --c3: #bc8cff; --c4: #f778ba; --c5: #d29922; --c6: #39c5cf;
  --c7: #9198a1; --good: 63,185,80; --bad: 248,81,73; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 16px; max-width: 1160px; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 4px 0; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 32px 0 10px; }
details > summary { cursor: pointer; margin: 32px 0 10px; } summary h2 { display: inline; }
p, .soft, small { color: var(--soft); margin: 4px 0; } small, .soft { font-weight: 400; }
.tiles, .charts { display: grid; gap: 12px; margin-top: 16px; }
.tiles { grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); }
.charts { grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
.tiles div, figure { background: var(--panel); border: 1px solid var(--edge); border-radius: 8px; margin: 0;
  padding: 10px 12px; }
.tiles b { display: block; font-size: 20px; }
figcaption { font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 11px; } @media (max-width: 600px) { svg text { font-size: 14px; } }
.end, .name { text-anchor: end; } .middle { text-anchor: middle; }
.grid { stroke: var(--edge); } .line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.bars rect { fill: var(--c); } .net { width: auto; max-width: none; }
.net .box { fill: var(--panel); stroke: var(--edge); } .net .join { fill: none; stroke: var(--edge); }
.net .small { font-size: 10px; } .histograms { grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); }
circle { fill: transparent; } circle:hover, circle:last-child { fill: var(--c); } .key { display: inline-block; margin-right: 16px; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; background: var(--c); }
.line-0 { --c: var(--c0); } .line-1 { --c: var(--c1); } .line-2 { --c: var(--c2); } .line-3 { --c: var(--c3); }
.line-4 { --c: var(--c4); } .line-5 { --c: var(--c5); } .line-6 { --c: var(--c6); } .line-7 { --c: var(--c7); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 3px 8px; border-bottom: 1px solid var(--edge); text-align: left; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.confusion td { text-align: center; min-width: 34px; border: 1px solid var(--ground); }
.confusion th { font-weight: 500; color: var(--soft); }
.right { background: rgba(var(--good), var(--share)); } .wrong { background: rgba(var(--bad), var(--share)); }
.charts.one { grid-template-columns: 1fr; }
.pictures { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(118px, 1fr)); }
.pictures figure { padding: 8px; font-size: 13px; overflow-wrap: anywhere; }
.pictures img { width: 100%; }
.examples { display: flex; flex-wrap: wrap; gap: 12px; } .examples figure { padding: 8px; font-size: 13px;
  max-width: 340px; overflow-wrap: anywhere; }
.examples img { width: 96px; margin-right: 4px; }
.filters { display: flex; flex-wrap: wrap; gap: 6px; } .filters img { width: 48px; }
img { image-rendering: pixelated; border-radius: 4px; max-width: 100%; }
pre { background: var(--panel); border: 1px solid var(--edge); border-radius: 8px; padding: 12px; overflow-x: auto;
  font-size: 13px; }
)";

}  // namespace nixie
