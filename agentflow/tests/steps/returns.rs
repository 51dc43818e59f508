//! Tests early returns: nodes below an arm that returns run only if that arm was not taken.

use agentflow::__private::{arms, returns};
use agentflow::Result;
use agentflow::workflow::Router;
use agentflow_testing::CrashTest;

use crate::expanded::expanded;
use crate::{Handle, Node, Seen, Steps, step};

thread_local! {
    static SEEN: Seen = const { Seen::new() };
}

fn noted(steps: &mut Steps<'_>, name: &'static str, n: Handle<u64>, add: u64) -> Handle<u64> {
    step!(steps, name, (n,), move |cx: agentflow::Context, (n,)| async move {
        SEEN.with(|seen| seen.note(cx.path().to_string()));
        Ok::<u64, agentflow::Error>(n + add)
    })
}

fn below(steps: &mut Steps<'_>, name: &'static str, n: Handle<u64>, limit: u64) -> Router {
    steps.route(Node::new(name), &["then", "else"], (n,), move |(n,)| {
        Ok::<&'static str, agentflow::Error>(if n < limit { "then" } else { "else" })
    })
}

// if n < 10 { return Ok(first(n).await?); }
// if n < 20 { return Ok(n); }
// let a = rest(n).await?;
// Ok(a)
expanded!(early, u64 => u64, |steps, n| {
    let mut returns = returns::<u64>();
    let router = below(steps, "if_1", n, 10);
    let ended = steps.arm(router, "then", |steps| noted(steps, "first", n, 100));
    returns.add(ended);
    let returned = steps.returned(router, &returns);
    let rest = steps.unless(returned, |steps| {
        let router = below(steps, "if_2", n, 20);
        let ended = steps.arm(router, "then", |_| n);
        returns.add(ended);
        let returned = steps.returned(router, &returns);
        steps.unless(returned, |steps| {
            let a = noted(steps, "rest", n, 1000);
            steps.value::<_, u64, _>(Node::new("output"), (a,), |(a,)| Ok(a))
        })
    });
    steps.either(&returns, rest)
});

#[tokio::test]
async fn the_first_return_ends_the_workflow() -> Result<()> {
    SEEN.with(Seen::take);
    for (n, output, ran) in
        [(1, 101, vec!["if_1/then/first"]), (11, 11, vec![]), (21, 1021, vec!["rest"])]
    {
        assert_eq!(early::call(None, n).await?, output);
        assert_eq!(SEEN.with(Seen::take), ran, "{n}");
    }
    Ok(())
}

// let y = if n < 10 { if n < 5 { return Ok(7); } a(n).await? } else { n };
// Ok(b(y).await?)
expanded!(nested, u64 => u64, |steps, n| {
    let mut returns = returns::<u64>();
    let outer = below(steps, "y", n, 10);
    let mut inner_returned = None;
    let then = steps.arm(outer, "then", |steps| {
        let inner = below(steps, "if_1", n, 5);
        let ended = steps.arm(inner, "then", |steps| {
            steps.value::<_, u64, _>(Node::new("output"), (), |()| Ok(7))
        });
        returns.add(ended);
        let returned = steps.returned(inner, &returns);
        inner_returned = Some(returned);
        steps.unless(returned, |steps| noted(steps, "a", n, 1))
    });
    let other = steps.arm(outer, "else", |_| n);
    let y = steps.join(outer, arms::<u64>().arm(then).arm(other));
    let returned = steps.returned(outer, &returns);
    let rest = steps.unless(returned, |steps| noted(steps, "b", y, 0));
    steps.either(&returns, rest)
});

#[tokio::test]
async fn a_return_within_an_arm() -> Result<()> {
    for (n, output) in [(1, 7), (6, 7), (12, 12)] {
        assert_eq!(nested::call(None, n).await?, output, "{n}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn returns_survive_crashes() {
    for n in [1, 11, 21] {
        CrashTest::new(&early::workflow(), move || n).run().await;
    }
    for n in [1, 6, 12] {
        CrashTest::new(&nested::workflow(), move || n).run().await;
    }
}

#[test]
fn the_graph_shows_returns() {
    let graph = early::workflow().graph();
    assert_eq!(graph.node("rest").unwrap().unless.as_deref(), Some("if_2/return"));
    assert_eq!(graph.node("if_2").unwrap().unless.as_deref(), Some("if_1/return"));
    assert_eq!(graph.node("if_2/return").unwrap().reads, ["if_1/then/first", "if_2/then/yield"]);
}
