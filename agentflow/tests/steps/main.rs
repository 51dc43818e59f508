//! Tests the contract between `#[workflow]` and the library: values that are computed once, checks,
//! returns, bodies of several steps, source order. The workflows are written in the form to which
//! the attribute expands.

mod bodies;
mod definitions;
mod drawing;
mod expanded;
mod order;
mod problems;
mod returns;
mod values;

use std::sync::Mutex;

pub(crate) type Steps<'s> = agentflow::__private::Steps<'s, agentflow::Error>;
pub(crate) use agentflow::__private::{Handle, Node};

/// A log of events in one test, in order.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Vec<String>>);

impl Seen {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Writes a step in the form to which the attribute expands: it announces its callees and then runs
/// its body.
macro_rules! step {
    ($steps:expr, $name:expr, $reads:expr, $body:expr) => {
        step!($steps, agentflow::__private::Node::new($name), [], $reads, $body)
    };
    ($steps:expr, $node:expr, [$($callee:expr),*], $reads:expr, $body:expr) => {
        $steps.step::<_, _, _, _>($node, $reads, move |args| async move {
            let (cx, values) = args.calling([$(agentflow::__private::function_id(&$callee)),*]).await;
            #[allow(clippy::redundant_closure_call)]
            $body(cx, values).await
        })
    };
}

pub(crate) use step;
