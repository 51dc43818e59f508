#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use agentflow::prelude::*;
use agentflow::Result;

async fn count(n: usize) -> Result<usize> {
    Ok(n)
}

#[workflow]
async fn days(text: String) -> Result<usize> {
    let days = BTreeSet::from(["sat", "sun"]);
    let words = text.split(' ').collect::<HashSet<_>>();
    let one = count(days.len() + words.len()).await?;
    let named = HashMap::from([("sat", 1), ("sun", 2)]);
    let titles = BTreeMap::from([(String::from("sat"), "Saturday")]);
    let two = count(named.len() + titles.len()).await?;
    let pairs = text.split_whitespace().map(|word| (word, word.len())).collect::<Vec<_>>();
    let three = count(pairs.len()).await?;
    Ok(one + two + three)
}

fn main() {}
