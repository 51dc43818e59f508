#![allow(unused)]

use agentflow::tools;

struct Calculator;

fn main() {
    tools![Calculator];
}
