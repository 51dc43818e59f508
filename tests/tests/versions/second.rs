//! The second versions of the program in `src/bin/order_first.rs`, each in a separate module. The
//! comment above a module describes its only difference.

use agentflow::prelude::*;
use agentflow_tests::order::EffectFile;

fn note(cx: &Context, what: &str) -> Result<()> {
    cx.inject::<EffectFile>()?.note(what);
    Ok(())
}

async fn price(cx: &Context, n: u64) -> Result<u64> {
    note(cx, "price")?;
    Ok(n * 10)
}

async fn weigh(cx: &Context, n: u64) -> Result<u64> {
    note(cx, "weigh")?;
    Ok(n * 3)
}

async fn quote(cx: &Context, total: u64) -> Result<Quote> {
    note(cx, "quote")?;
    Ok(Quote { total })
}

async fn quote_with_tax(cx: &Context, total: u64) -> Result<Quote> {
    note(cx, "quote")?;
    Ok(Quote { total: total * 2 })
}

async fn insure(cx: &Context, total: u64) -> Result<u64> {
    note(cx, "insure")?;
    Ok(total / 10)
}

async fn look(cx: &Context, n: u64) -> Result<u64> {
    note(cx, "look")?;
    Ok(n + 1)
}

async fn stamp(cx: &Context, n: u64) -> Result<u64> {
    note(cx, "stamp")?;
    Ok(n)
}

/// Takes the money.
#[tool]
async fn pay(effects: Inject<EffectFile>, amount: u64) -> Result<String> {
    effects.note("pay");
    Ok(format!("paid {amount}"))
}

/// Puts a paper away.
#[tool]
async fn archive(effects: Inject<EffectFile>, paper: u64) -> Result<String> {
    effects.note("archive");
    Ok(format!("archived {paper}"))
}

/// Sends a letter.
#[tool]
async fn send(effects: Inject<EffectFile>, text: String) -> Result<String> {
    effects.note("send");
    Ok(format!("sent: {text}"))
}

/// What it costs.
#[derive(
    agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema,
)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Quote {
    total: u64,
}

/// Checks a quote.
#[workflow]
async fn check(cx: &Context, total: u64) -> Result<u64> {
    let seen = look(cx, total).await?;
    Ok(seen + 1)
}

/// Keeps the papers.
#[workflow]
async fn file(cx: &Context, paper: u64) -> Result<String> {
    let archived = archive(cx.inject()?, paper).await?;
    Ok(archived)
}

/// The same text in another program.
pub(crate) mod unchanged {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// Different formatting, comments and local names within a node.
#[rustfmt::skip]
pub(crate) mod written_otherwise {
    use super::*;

    /// Takes an order, and says so in other words.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        // A comment.
        let price = price(cx, n)
            /* and another */ .await?;

        let weight = weigh(cx, n).await?;
        let total = {
            let grams = weight + 1;
            grams * 2
        };
        #[node(id = "bill")]
        let costs = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |one| look(cx, one)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!("{paid}, {filed}, {} {insured} {seen:?} {checked} {}", costs.total, approval.is_granted());
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// Different bodies of the functions that the steps call.
pub(crate) mod of_other_functions {
    use super::*;

    async fn price(cx: &Context, n: u64) -> Result<u64> {
        note(cx, "price")?;
        Ok(n * 1_000)
    }

    async fn weigh(_: &Context, _: u64) -> Result<u64> {
        unreachable!("it is done")
    }

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// Different comments on a recorded type.
pub(crate) mod of_a_described_type {
    use super::*;

    /// What it costs, in other words.
    #[derive(
        agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema,
    )]
    #[serde(crate = "agentflow::serde")]
    #[schemars(crate = "agentflow::schemars")]
    struct Quote {
        /// In euros.
        total: u64,
    }

    async fn quote(cx: &Context, total: u64) -> Result<Quote> {
        note(cx, "quote")?;
        Ok(Quote { total })
    }

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// Different policies of a completed step, of a completed step with side effects, and of a step
/// that has not started.
pub(crate) mod of_other_policies {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        #[node(retry = 3, timeout = "30s")]
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        #[node(timeout = "20s")]
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        #[node(approve = "really?")]
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// An added node whose output is read.
pub(crate) mod with_a_node {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let stamp = stamp(cx, weight).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{stamp}, {paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// An added node with a side effect, before the gate. Its output is not read.
pub(crate) mod with_a_node_that_is_not_read {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        stamp(cx, weight).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A different computation of a value.
pub(crate) mod of_another_value {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 3
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A different condition.
pub(crate) mod of_another_condition {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 1_000 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A different argument.
pub(crate) mod of_another_argument {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total + 5).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A call of a different function.
pub(crate) mod of_another_callee {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote_with_tax(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A renamed node.
pub(crate) mod of_another_name {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "costs")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A removed node.
pub(crate) mod without_a_node {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A different recorded type.
pub(crate) mod of_another_type {
    use super::*;

    #[derive(
        agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema,
    )]
    #[serde(crate = "agentflow::serde")]
    #[schemars(crate = "agentflow::schemars")]
    struct Quote {
        sum: u64,
    }

    async fn quote(cx: &Context, sum: u64) -> Result<Quote> {
        note(cx, "quote")?;
        Ok(Quote { sum })
    }

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.sum,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A different argument of a completed step with side effects.
pub(crate) mod that_pays_more {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price + 1).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A different computation of a value that a completed step with side effects reads.
pub(crate) mod of_another_price {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n + 1).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A renamed step that has completed and has side effects.
pub(crate) mod that_pays_under_another_name {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        #[node(id = "payment")]
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A removed step that has completed and has side effects.
pub(crate) mod that_does_not_pay {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = "nothing paid".to_owned();
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A different inner workflow without side effects.
pub(crate) mod that_checks_otherwise {
    use super::*;

    #[workflow]
    async fn check(cx: &Context, total: u64) -> Result<u64> {
        let seen = look(cx, total).await?;
        Ok(seen + 100)
    }

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A different inner workflow that has already had side effects.
pub(crate) mod that_files_otherwise {
    use super::*;

    #[workflow]
    async fn file(cx: &Context, paper: u64) -> Result<String> {
        let archived = archive(cx.inject()?, paper + 1).await?;
        Ok(archived)
    }

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text).await?;
        Ok(sent)
    }
}

/// A different step with side effects that has not started.
pub(crate) mod that_sends_more {
    use super::*;

    /// Takes an order.
    #[workflow]
    pub(crate) async fn order(cx: &Context, n: u64) -> Result<String> {
        let price = price(cx, n).await?;
        let weight = weigh(cx, n).await?;
        let total = {
            let more = weight + 1;
            more * 2
        };
        #[node(id = "bill")]
        let bill = quote(cx, total).await?;
        let insured = if total > 10 { insure(cx, total).await? } else { 0 };
        let seen = map!(vec![total], |each| look(cx, each)).await?;
        let checked = check(cx, total).await?;
        let filed = file(cx, price).await?;
        let paid = pay(cx.inject()?, price).await?;
        let approval = gate!("send it?", paid).await?;
        let text = format!(
            "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
            bill.total,
            approval.is_granted()
        );
        let sent = send(cx.inject()?, text + "!").await?;
        Ok(sent)
    }
}
