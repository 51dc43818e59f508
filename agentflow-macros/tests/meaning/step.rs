//! Calls of functions in a step. A call that the plan does not show waits for the steps above it,
//! and is recorded below the step.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use super::eval::{Interpreter, Running};
use super::interpreted_code::Item;
use super::machine::{self, RunState};
use super::plan::{HiddenEffect, NodeIndex, hidden_effect};
use super::value::Value;

/// A record in the journal of a run.
#[derive(Clone)]
pub(super) enum Record {
    Started { is_repeatable: bool },
    Asked(String),
    Completed(Value),
    Failed(machine::Failure),
}

/// The journal of a run, which the next process reads. The process ends at one of its writes.
#[derive(Default)]
pub(super) struct Journal {
    records: RefCell<HashMap<String, Record>>,
    writes: Cell<usize>,
    /// Number of the write at which the process ends, and `true` if the write is kept.
    cut: Cell<Option<(usize, bool)>>,
    is_dead: Cell<bool>,
    /// Number of interrupted calls that an operator retried.
    pub(super) retries: Cell<usize>,
}

impl Journal {
    pub(super) fn get(&self, path: &str) -> Option<Record> {
        self.records.borrow().get(path).cloned()
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.get()
    }

    /// Returns the number of writes of this process.
    pub(super) fn writes(&self) -> usize {
        self.writes.get()
    }

    /// Starts a process that ends at this write.
    pub(super) fn begin(&self, cut: Option<(usize, bool)>) {
        self.writes.set(0);
        self.is_dead.set(false);
        self.cut.set(cut);
    }

    /// Writes a record. Never returns if the process ends here.
    pub(super) async fn write(&self, path: &str, record: Record) {
        self.writes.set(self.writes.get() + 1);
        let ends = self.cut.get().filter(|(write, _)| *write == self.writes.get());
        if ends.is_none_or(|(_, is_kept)| is_kept) {
            self.records.borrow_mut().insert(path.to_owned(), record);
        }
        if ends.is_some() {
            self.is_dead.set(true);
            std::future::pending::<()>().await;
        }
    }
}

/// The step that executes some code.
pub(super) struct StepContext {
    pub(super) path: String,
    pub(super) run: Rc<RunState>,
    pub(super) node: NodeIndex,
    pub(super) direct: Option<Rc<Item>>,
    pub(super) is_direct_taken: Cell<bool>,
    pub(super) has_turn: bool,
    /// The step in which the workflow of the step was started.
    pub(super) outer: Option<Rc<StepContext>>,
    pub(super) journal: Rc<Journal>,
    /// Number of equal calls so far.
    pub(super) calls: RefCell<HashMap<String, usize>>,
}

impl StepContext {
    fn takes_direct(&self, item: &Rc<Item>) -> bool {
        self.direct.as_ref().is_some_and(|direct| Rc::ptr_eq(direct, item))
            && !self.is_direct_taken.replace(true)
    }

    /// Returns the path of a call, which is the same when the step runs again.
    fn path_of(&self, item: &Item, arguments: &[Value]) -> String {
        let shown: Vec<String> = arguments.iter().map(Value::debug).collect();
        let call = format!("{}/{}({})", self.path, item.name, shown.join(", "));
        let mut calls = self.calls.borrow_mut();
        let number = calls.entry(call.clone()).or_default();
        *number += 1;
        format!("{call}#{number}")
    }

    /// Waits until a call with this effect may begin here.
    async fn until_turn(&self, effect: HiddenEffect) {
        let mut next = Some(self);
        while let Some(step) = next {
            if step.has_turn {
                poll_fn(|_| match step.run.has_turn(step.node, effect) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                })
                .await;
            }
            next = step.outer.as_deref();
        }
    }
}

/// Calls an async function.
pub(super) fn call<'a>(
    interpreter: &'a Interpreter,
    item: Rc<Item>,
    arguments: Vec<Value>,
    step: Option<Rc<StepContext>>,
) -> Running<'a> {
    let Some(of) = step.clone() else { return interpreter.body(item, arguments, step) };
    if item.is_workflow {
        return Box::pin(async move {
            let plan = Rc::clone(item.plan.get().expect("it was built before"));
            let path = of.path_of(&item, &arguments);
            if let Some(effect) = plan.effect() {
                of.until_turn(effect).await;
            }
            let journal = Rc::clone(&of.journal);
            let inputs = arguments
                .into_iter()
                .filter(|one| !matches!(one, Value::Host(super::value::Host::Context)))
                .collect();
            let ended = machine::run(interpreter, plan, inputs, path, journal, Some(of)).await;
            Ok(match ended {
                Ok(value) => Value::ok(value),
                Err(failure) => Value::err(failure.value),
            })
        });
    }
    let Some(tool) = item.tool.filter(|_| !of.takes_direct(&item)) else {
        return interpreter.body(item, arguments, step);
    };
    Box::pin(async move {
        if let Some(effect) = hidden_effect(&item) {
            of.until_turn(effect).await;
        }
        let path = of.path_of(&item, &arguments);
        match of.journal.get(&path) {
            Some(Record::Completed(value)) => return Ok(value),
            Some(Record::Started { is_repeatable: false }) => {
                of.journal.retries.set(of.journal.retries.get() + 1);
            }
            _ => {}
        }
        let is_repeatable = tool.is_repeatable();
        of.journal.write(&path, Record::Started { is_repeatable }).await;
        let value = interpreter.body(item, arguments, step).await?;
        of.journal.write(&path, Record::Completed(value.clone())).await;
        Ok(value)
    })
}
