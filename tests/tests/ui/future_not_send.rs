#![allow(unused)]

use agentflow::tool;

#[tool]
async fn ask() -> usize {
    let shared = std::rc::Rc::new(5);
    std::future::ready(()).await;
    *shared
}

fn main() {
    agentflow::tools![ask];
}
