#![allow(unused)]

use agentflow::tool;

#[tool(nmae = "x", timeout = "5 parsecs", retry = 1, retry = 2)]
unsafe fn ask<T>(#[tool(defualt = 1)] a: u8, (b, c): (u8, u8), d: impl Copy, e: &str) {}

struct Opaque;

// A wrong option does not hide a wrong type.
#[tool(retyr = 1)]
fn tell(a: Opaque, b: Opaque) -> Opaque {
    a
}

fn main() {
    agentflow::tools![ask, tell];
}
