//! Tests drawings of a workflow's structure: order, returns, bodies.

use agentflow::__private::returns;
use agentflow::{Approval, Context, Error};

use crate::expanded::expanded;
use crate::{Handle, Node, Steps, step};

// if n < 10 { return Ok(n); }  let ok = gate!("go?").await?;  for x in [n] { assert!(x > 0); }  Ok(n)
expanded!(drawn, u64 => u64, |steps, n| {
    let mut returns = returns::<u64>();
    let router = steps.route(Node::new("small"), &["then", "else"], (n,), |(n,)| {
        Ok::<&'static str, Error>(if n < 10 { "then" } else { "else" })
    });
    let ended = steps.arm(router, "then", |_| n);
    returns.add(ended);
    let returned = steps.returned(router, &returns);
    let rest = steps.unless(returned, |steps| {
        let _: Handle<Approval> = steps.gate(Node::new("ok"), (n,), |(n,)| Ok(("go?".to_owned(), n)));
        let list = steps.value::<_, Vec<u64>, _>(Node::new("list"), (n,), |(n,)| Ok(vec![n]));
        steps.for_each(Node::new("all"), list, (), |steps, x, ()| {
            steps.check::<_, _, _>(Node::new("check"), (x,), |args| async move {
                let (_cx, (x,)) = args.calling([]).await;
                assert!(x > 0);
                Ok::<(), Error>(())
            })
        });
        n
    });
    steps.either(&returns, rest)
});

#[test]
fn mermaid_and_dot() {
    let graph = drawn::workflow().graph();
    assert_eq!(
        graph.to_mermaid(),
        r#"flowchart TD
    n0(["n"])
    n1{"small"}
    n4{{"ok"}}
    n5("list")
    n6[["all<br/>for each, in order"]]
    subgraph n6b ["each of all"]
        n6b_1("check<br/>must hold")
    end
    n6 --- n6b
    n0 --> n1
    n1 -->|"otherwise"| n4
    n0 --> n4
    n0 --> n5
    n4 -.->|"gate"| n5
    n5 --> n6
"#
    );
    let dot = graph.to_dot();
    assert!(
        dot.contains("    subgraph cluster_n6b {\n        label=\"each of all\";\n        n6b_1 ["),
        "{dot}"
    );
    assert!(dot.contains("    n6 -> n6b_1 [style=dotted, arrowhead=none];\n"), "{dot}");
    assert!(dot.contains("    n4 -> n5 [label=\"gate\", style=dashed];\n"), "{dot}");
    let json = graph.to_json();
    assert_eq!(serde_json::from_value::<agentflow::workflow::Graph>(json).unwrap(), graph);
}

/// Writes.
#[agentflow::tool]
async fn mail(n: u64) -> u64 {
    n
}

fn looks(steps: &mut Steps<'_>, name: &'static str, n: Handle<u64>) -> Handle<u64> {
    step!(steps, Node::new(name), [], (n,), |_: Context, (n,)| async move { Ok::<u64, Error>(n) })
}

fn mails(steps: &mut Steps<'_>, name: &'static str, n: Handle<u64>) -> Handle<u64> {
    step!(steps, Node::new(name), [mail], (n,), |_: Context, (n,)| async move {
        Ok::<u64, Error>(mail(n).await)
    })
}

// let a = look(n).await?;  let b = look(a).await?;  let c = look(n).await?;
// if n > 10 { mail(n).await?; }  mail(n).await?;  Ok(a)
expanded!(wide, u64 => u64, |steps, n| {
    let a = looks(steps, "a", n);
    looks(steps, "b", a);
    looks(steps, "c", n);
    let router = steps.route(Node::new("if"), &["then", "else"], (n,), |(n,)| {
        Ok::<&'static str, Error>(if n > 10 { "then" } else { "else" })
    });
    let then = steps.arm(router, "then", |steps| {
        mails(steps, "first", n);
        steps.value::<_, (), _>(Node::new("yield"), (), |()| Ok(()))
    });
    let other = steps.arm(router, "else", |steps| steps.value::<_, (), _>(Node::new("yield"), (), |()| Ok(())));
    steps.join(router, agentflow::__private::arms::<()>().arm(then).arm(other));
    mails(steps, "last", n);
    a
});

#[test]
fn a_picture_has_what_is_written_and_the_fewest_edges_of_order() {
    let graph = wide::workflow().graph();
    // In the plan, it waits for the ends of both arms, which have no counterpart in the source.
    let order: Vec<&str> =
        graph.node("last").unwrap().order.iter().map(|edge| edge.node.as_str()).collect();
    assert_eq!(order, ["if/then/yield", "if/else/yield"]);
    assert_eq!(
        graph.to_mermaid(),
        r#"flowchart TD
    n0(["n"])
    n1["a"]
    n2["b"]
    n3["c"]
    n4{"if"}
    n5["first (tool)"]
    n9["last (tool)"]
    n0 --> n1
    n1 --> n2
    n0 --> n3
    n0 --> n4
    n4 -->|"then"| n5
    n0 --> n5
    n2 -.->|"above"| n5
    n3 -.->|"above"| n5
    n0 --> n9
    n5 -.->|"above"| n9
"#
    );
}
