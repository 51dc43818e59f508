//! Legal but unusual Rust in bodies: conditions that start with a block, `mut` in a pattern, names
//! in capitals, macros with a block. Each has the same results as a plain function and as a
//! workflow.

#![allow(
    dead_code,
    non_snake_case,
    clippy::blocks_in_conditions,
    clippy::clone_on_copy,
    clippy::match_single_binding,
    clippy::no_effect,
    clippy::redundant_locals,
    clippy::unnecessary_literal_unwrap,
    clippy::unused_unit,
    reason = "seldom written"
)]

use agentflow::prelude::*;
use agentflow::schemars::JsonSchema;
use agentflow::serde::{Deserialize, Serialize};

use super::natural::{Failed, outcome, twins};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Size {
    width: u32,
    height: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
enum Level {
    High,
    Low,
}

async fn pass(n: u32) -> Result<u32, Failed> {
    if n == 13 { Err("thirteen".into()) } else { Ok(n) }
}

async fn size(n: u32) -> Result<Size, Failed> {
    Ok(Size { width: n, height: n.is_multiple_of(2).then_some(n + 1) })
}

async fn pair(n: u32) -> Result<(u32, u32), Failed> {
    Ok((n, n * 2))
}

async fn stock(n: u32) -> Result<Option<u32>, Failed> {
    Ok((n > 2).then_some(n))
}

async fn level(n: u32) -> Result<Option<Level>, Failed> {
    Ok(match n {
        0 => None,
        n if n > 4 => Some(Level::High),
        _ => Some(Level::Low),
    })
}

async fn weight(level: Level) -> Result<u32, Failed> {
    Ok(if level == Level::High { 10 } else { 1 })
}

async fn within(limit: Option<u32>) -> Result<bool, Failed> {
    Ok(limit.is_none())
}

twins! {
    n, list;

    a_condition_that_begins_with_a_match {
        let kind = if match pass(n).await? { 0 => 1, n => n } > 2 { pass(1).await? } else { 0 };
        Ok(kind)
    }
    a_condition_that_begins_with_a_block {
        let kind = if { pass(n).await? } == 0 { pass(7).await? } else { 2 };
        Ok(kind)
    }
    a_condition_with_a_struct_in_parentheses {
        let found = size(n).await?;
        let kind = if (Size { width: 2, height: Some(3) } == found) { pass(1).await? } else { 0 };
        Ok(kind)
    }
    a_let_else_of_a_struct {
        let Size { height: Some(height), .. } = Size { width: n, height: n.checked_sub(3) }.clone() else {
            return Ok(pass(n).await? + 100);
        };
        pass(height).await
    }
    a_mut_binding_in_an_arm {
        let found = stock(n).await?;
        let left = match found {
            Some(mut left) => pass({ left -= 1; left }).await?,
            None => 0,
        };
        Ok(left)
    }
    a_mut_binding_of_an_if_let {
        let left = if let Some(mut left) = stock(n).await? {
            pass({ left += list.len() as u32; left }).await?
        } else {
            0
        };
        Ok(left)
    }
    a_mut_binding_beside_another {
        let left = match (stock(n).await?, n) {
            (Some(mut left), other) if other > 3 => {
                let less = pass({ left -= 1; left }).await?;
                pass(less + other).await?
            }
            (mut all @ Some(_), _) => pass(all.take().unwrap_or_default() + 50).await?,
            _ => 0,
        };
        Ok(left)
    }
    capitals_in_a_tuple {
        let (Width, Height) = pair(n).await?;
        let wide = pass(Width).await?;
        Ok(wide + Height)
    }
    capitals_in_arms {
        let area = match (n, stock(n).await?) {
            (W, Some(5)) => pass(W).await?,
            (W, Some(H)) => {
                let first = pass(W + H).await?;
                pass(first + H).await?
            }
            _ => 0,
        };
        Ok(area)
    }
    capitals_of_an_else_if {
        let area = if n > 8 {
            pass(1).await?
        } else if let Some(H) = stock(n).await? {
            pass(H + 1).await?
        } else {
            2
        };
        Ok(area)
    }
    capitals_that_are_constants {
        use Level::{High, Low};
        const MANY: u32 = 4;
        let known = level(n).await?;
        let weighed = match known {
            Some(High) => weight(High).await?,
            Some(Low) => pass(2).await?,
            None => 0,
        };
        let many = match n {
            MANY => pass(MANY).await?,
            _ => 1,
        };
        Ok(weighed + many)
    }
    capitals_in_a_closure_and_a_loop {
        let sums = list.iter().map(|N| N + n).collect::<Vec<_>>();
        for A in &sums {
            pass(*A).await?;
        }
        for (Place, A) in list.into_iter().enumerate() {
            pass(Place as u32 + A).await?;
        }
        Ok(sums.len() as u32)
    }
    a_macro_of_a_block {
        let base = pass(n).await?;
        let sum = {
            macro_rules! plus {
                ($n:literal) => { base + $n };
            }
            pass(plus!(2)).await?
        };
        Ok(sum)
    }
    a_macro_of_the_body {
        let base = pass(n).await?;
        macro_rules! plus {
            ($n:expr) => { base + $n };
        }
        let base = pass(100).await?;
        let one = pass(plus!(1)).await?;
        let more = if one > 3 { pass(plus!(one)).await? } else { base };
        Ok(more)
    }
    one_type_of_a_none {
        let limit = None;
        let open = within(limit).await?;
        let none = within(limit.or(stock(n).await?)).await?;
        Ok(u32::from(open) + u32::from(none) + u32::from(limit.is_none()))
    }
}

/// Forms exist only in a workflow, and accept any expression and any name.
#[workflow]
async fn unusual_forms(n: u32, list: Vec<u32>) -> Result<u32, Failed> {
    let all = map!(list, |N| pass(N + n)).await?;
    let chosen = timeout!("10s", if n > 3 { pass(n) } else { pass(1) }).await?;
    Ok(chosen + all.iter().sum::<u32>())
}

#[tokio::test]
async fn forms_take_any_expression_and_any_name() {
    assert_eq!(unusual_forms(5, vec![1, 2]).await.unwrap(), 5 + 6 + 7);
    assert_eq!(unusual_forms(2, vec![]).await.unwrap(), 1);
}
