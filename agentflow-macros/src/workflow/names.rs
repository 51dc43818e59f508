//! Names the nodes of a body or an arm: after their `let`, or after what they call. No name follows from a place in the
//! source, so that a statement put in between renames nothing. It knows no paths: those are the library's.

use std::collections::{HashMap, HashSet};

use quote::ToTokens;
use syn::Expr;

use super::code::fnv;
use super::model::{BranchBody, Head, LambdaBody, Node, Statement, Work};
use super::syntax::{about, called, written};
use crate::errors::Errors;
use crate::patterns::as_name;

/// The longest name that is made of code; what is cut off is replaced by its hash.
const LONGEST: usize = 48;

/// The names of the nodes of one body or arm.
#[derive(Default)]
pub(super) struct NodeNames {
    taken: HashSet<String>,
    /// The names that are given by hand.
    given: HashSet<String>,
}

impl NodeNames {
    /// An input's name.
    pub(super) fn input(&mut self, name: String) {
        self.taken.insert(name);
    }

    /// A name given by hand, which must be free. One under `#[cfg(..)]` may be given twice.
    pub(super) fn given(&mut self, name: &str, at: impl ToTokens, conditional: bool, errors: &mut Errors) {
        let free = self.taken.insert(name.to_owned());
        if !free && !conditional {
            errors.at(at, format!("two nodes are named `{name}`; give one of them another `id`"));
        }
        self.given.insert(name.to_owned());
    }

    /// The name of a `let`: that of its variables. When a variable is bound a second time, what is called is added.
    pub(super) fn bound(&mut self, variables: &str, calls: &str, conditional: bool) -> String {
        let wanted = as_name(variables.trim_start_matches('_'));
        if conditional || self.taken.insert(wanted.clone()) {
            self.taken.insert(wanted.clone());
            return wanted;
        }
        let call = calls.split(' ').next().unwrap_or_default();
        let last = call.rsplit("::").next().unwrap_or_default();
        let with_call = if last.is_empty() { format!("{wanted}_again") } else { format!("{wanted}_{}", as_name(last)) };
        self.free(&with_call)
    }

    /// The name, with a number when it is taken.
    pub(super) fn free(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut number = 1;
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        name
    }

    /// Names all nodes that have no name yet. A call that is there once gives its name; several of one name are
    /// distinguished by their arguments.
    pub(super) fn rest(&mut self, statements: &mut [Statement], tail: &mut Node, tail_name: &str) {
        let unnamed = |node: &Node| node.name.is_empty();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for statement in statements.iter() {
            if let Statement::Node(node) = statement
                && unnamed(node)
            {
                *counts.entry(short(node)).or_default() += 1;
            }
        }
        let tail_short = match &tail.work {
            Work::Value(_) | Work::Never(_) => tail_name.to_owned(),
            _ => {
                let short = short(tail);
                if unnamed(tail) {
                    *counts.entry(short.clone()).or_default() += 1;
                }
                short
            }
        };
        for statement in statements.iter_mut() {
            if let Statement::Node(node) = statement
                && unnamed(node)
            {
                let short = short(node);
                node.name = self.of(&short, counts.get(&short).copied().unwrap_or(1), node);
            }
        }
        if unnamed(tail) {
            tail.name = self.of(&tail_short, counts.get(&tail_short).copied().unwrap_or(1), tail);
        }
        // They are rarely nodes, so they get the names that are left.
        for statement in statements {
            if let Statement::Look(node) = statement {
                let wanted = if node.name.is_empty() { short(node) } else { std::mem::take(&mut node.name) };
                node.name = self.free(&wanted);
            }
        }
    }

    fn of(&mut self, short: &str, count: usize, node: &Node) -> String {
        if count <= 1 && !self.taken.contains(short) {
            return self.free(short);
        }
        let long = long(node).map(|arguments| {
            let arguments = arguments.replace('"', "").replace(", ", ",");
            cut(&as_name(&format!("{short}({arguments})")))
        });
        self.free(long.as_deref().unwrap_or(short))
    }
}

/// The name, or its beginning and the hash of it.
fn cut(name: &str) -> String {
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    let head: String = name.chars().take(LONGEST - 7).collect();
    format!("{head}~{:06x}", fnv(name) & 0xff_ffff)
}

/// What a node without a name is called when it is the only one of its kind.
fn short(node: &Node) -> String {
    as_name(&match &node.work {
        _ if node.is_part && !node.calls.is_empty() => last_word(&node.calls),
        Work::Step(expr) | Work::Future(expr) => called(expr),
        Work::Check(_) if !node.calls.is_empty() => last_word(&node.calls),
        Work::Value(expr) | Work::Check(expr) => match (called(expr).as_str(), &node.work) {
            ("step", Work::Check(_)) => "check".to_owned(),
            ("step", _) => "value".to_owned(),
            (name, _) => name.to_owned(),
        },
        Work::Never(_) => "yield".to_owned(),
        Work::Route(route) => match route.head {
            Head::If(_) => "if".to_owned(),
            Head::Match(_) => "match".to_owned(),
        },
        Work::Gate { .. } => "gate".to_owned(),
        Work::For { .. } => "for".to_owned(),
        Work::Map { step, .. } => of_lambda(&step.step, "map"),
        Work::Repeat { step, .. } => of_lambda(&step.step, "repeat"),
        Work::Race(_) => "race".to_owned(),
        Work::Fallback(_) => "fallback".to_owned(),
    })
}

/// The function of a path.
fn last_word(calls: &str) -> String {
    calls.rsplit("::").next().unwrap_or_default().to_owned()
}

fn of_lambda(step: &LambdaBody, otherwise: &str) -> String {
    match step {
        LambdaBody::Future(step) => called(step),
        LambdaBody::Seq(_) => otherwise.to_owned(),
    }
}

/// What distinguishes a node from others of its kind.
fn long(node: &Node) -> Option<String> {
    Some(match &node.work {
        Work::Step(expr) | Work::Future(expr) | Work::Value(expr) | Work::Check(expr) | Work::Never(expr) => {
            arguments(expr)
        }
        Work::Route(route) => match &route.head {
            // As it is written, whatever is computed before it.
            Head::If(_) => node.calls.strip_prefix("if ").unwrap_or(&node.calls).to_owned(),
            Head::Match(_) => node.calls.strip_prefix("match ").unwrap_or(&node.calls).to_owned(),
        },
        Work::Gate { question, .. } => written(question),
        Work::For { items, .. } | Work::Map { items, .. } => written(&items.expr),
        Work::Repeat { first, .. } => written(first),
        Work::Race(branches) | Work::Fallback(branches) => {
            let all: Vec<String> = branches.iter().map(|branch| of_branch(&branch.step, &branch.name)).collect();
            all.join(", ")
        }
    })
}

fn of_branch(step: &BranchBody, name: &str) -> String {
    match step {
        BranchBody::Future(step) | BranchBody::Whole(step) => written(step),
        BranchBody::Seq(_) => name.to_owned(),
    }
}

fn arguments(expr: &Expr) -> String {
    match about(expr) {
        Expr::Call(call) => written(&call.args),
        Expr::MethodCall(call) => format!("{}, {}", written(&call.receiver), written(&call.args)),
        Expr::Macro(mac) => written(&mac.mac.tokens),
        other => written(other),
    }
}
