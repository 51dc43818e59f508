//! Changes that make a workflow a different definition, and changes that do not.

use agentflow::prelude::*;

async fn price(n: u64) -> Result<u64> {
    Ok(n)
}

async fn pay(n: u64, times: u64) -> Result<u64> {
    Ok(n * times)
}

async fn look(n: u64) -> Result<u64> {
    Ok(n)
}

/// Declares one version of the workflow `order` in a separate module.
macro_rules! version {
    ($name:ident, $($body:tt)*) => {
        #[allow(unused_imports, dead_code, clippy::all)]
        mod $name {
            use super::{look, pay, price};
            use agentflow::prelude::*;

            $($body)*

            pub(super) fn hash() -> String {
                order::workflow().graph().hash()
            }
        }
    };
}

version!(
    first,
    /// Takes an order.
    #[workflow]
    async fn order(n: u64) -> Result<u64> {
        let price = price(n).await?;
        let more = if price > 10 { price + 1 } else { price };
        let notes = map!(vec![more], |x| {
            let seen = look(x).await?;
            pay(seen, 2).await?
        })
        .await?;
        let paid = pay(more, notes[0]).await?;
        Ok(paid)
    }
);

version!(
    with_comments_and_lines,
    /// Takes an order and does something else altogether, says this comment.
    #[workflow]
    async fn order(n: u64) -> Result<u64> {
        // A comment.
        let price = price(n).await?;
        let more = if price > 10 { price + 1 } else { price };

        let notes = map!(vec![more], |x| {
            let seen = look(x) /* another */
                .await?;
            pay(seen, 2).await?
        })
        .await?;
        let paid = pay(more, notes[0]).await?;
        Ok(paid)
    }
);

version!(
    a_step_reads_another,
    #[workflow]
    async fn order(n: u64) -> Result<u64> {
        let price = price(n).await?;
        let more = if price > 10 { price + 1 } else { price };
        let notes = map!(vec![more], |x| {
            let seen = look(x).await?;
            pay(seen, 2).await?
        })
        .await?;
        let paid = pay(price, notes[0]).await?;
        Ok(paid)
    }
);

version!(
    a_value_is_another,
    #[workflow]
    async fn order(n: u64) -> Result<u64> {
        let price = price(n).await?;
        let more = if price > 10 { price + 2 } else { price };
        let notes = map!(vec![more], |x| {
            let seen = look(x).await?;
            pay(seen, 2).await?
        })
        .await?;
        let paid = pay(more, notes[0]).await?;
        Ok(paid)
    }
);

version!(
    a_step_in_a_body_is_another,
    #[workflow]
    async fn order(n: u64) -> Result<u64> {
        let price = price(n).await?;
        let more = if price > 10 { price + 1 } else { price };
        let notes = map!(vec![more], |x| {
            let seen = look(x).await?;
            pay(seen, 3).await?
        })
        .await?;
        let paid = pay(more, notes[0]).await?;
        Ok(paid)
    }
);

version!(
    the_output_is_another,
    #[workflow]
    async fn order(n: u64) -> Result<u64> {
        let price = price(n).await?;
        let more = if price > 10 { price + 1 } else { price };
        let notes = map!(vec![more], |x| {
            let seen = look(x).await?;
            pay(seen, 2).await?
        })
        .await?;
        let paid = pay(more, notes[0]).await?;
        Ok(paid + 1)
    }
);

version!(
    a_policy_is_another,
    #[workflow]
    async fn order(n: u64) -> Result<u64> {
        #[node(retry = 1)]
        let price = price(n).await?;
        let more = if price > 10 { price + 1 } else { price };
        let notes = map!(vec![more], |x| {
            let seen = look(x).await?;
            pay(seen, 2).await?
        })
        .await?;
        let paid = pay(more, notes[0]).await?;
        Ok(paid)
    }
);

version!(
    the_order_is_another,
    #[workflow]
    async fn order(n: u64) -> Result<u64> {
        let price = price(n).await?;
        assert!(price > 0);
        let more = if price > 10 { price + 1 } else { price };
        let notes = map!(vec![more], |x| {
            let seen = look(x).await?;
            pay(seen, 2).await?
        })
        .await?;
        let paid = pay(more, notes[0]).await?;
        Ok(paid)
    }
);

#[test]
fn comments_and_formatting_make_no_other_definition() {
    assert_eq!(first::hash(), with_comments_and_lines::hash());
}

#[test]
fn whatever_a_run_could_notice_makes_another_definition() {
    let all = [
        ("first", first::hash()),
        ("a_step_reads_another", a_step_reads_another::hash()),
        ("a_value_is_another", a_value_is_another::hash()),
        ("a_step_in_a_body_is_another", a_step_in_a_body_is_another::hash()),
        ("the_output_is_another", the_output_is_another::hash()),
        ("a_policy_is_another", a_policy_is_another::hash()),
        ("the_order_is_another", the_order_is_another::hash()),
    ];
    for (at, (name, hash)) in all.iter().enumerate() {
        let same = all[..at].iter().find(|(_, other)| other == hash);
        assert!(same.is_none(), "{name} is the same as {same:?}");
    }
}

/// Declares two versions of a workflow that another one calls.
macro_rules! called {
    ($name:ident, $more:literal) => {
        mod $name {
            use agentflow::prelude::*;

            #[workflow]
            pub(super) async fn inner(n: u64) -> Result<u64> {
                let n = super::price(n).await?;
                Ok(n + $more)
            }

            #[workflow]
            async fn middle(n: u64) -> Result<u64> {
                let n = inner(n).await?;
                Ok(n)
            }

            #[workflow]
            async fn outer(n: u64) -> Result<u64> {
                let n = middle(n).await?;
                Ok(n)
            }

            pub(super) fn hash() -> String {
                outer::workflow().graph().hash()
            }
        }
    };
}

called!(one, 1);
called!(again, 1);
called!(two, 2);

#[test]
fn what_a_called_workflow_does_counts() {
    assert_eq!(one::hash(), again::hash());
    assert_ne!(one::hash(), two::hash());
}
