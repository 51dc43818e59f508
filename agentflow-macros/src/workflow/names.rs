//! Names the nodes of a body or an arm after their `let` or the function that they call. Names do
//! not depend on positions in the source, so inserting a statement does not rename other nodes. The
//! library forms the paths.

use std::collections::{HashMap, HashSet};

use quote::ToTokens;
use syn::Expr;

use super::code::fnv;
use super::model::{BranchBody, LambdaBody, Node, RouteHead, Statement, Work};
use super::syntax::{about, called, written};
use crate::errors::Errors;
use crate::patterns::as_name;

/// Maximum length of a name that is derived from code. The rest is replaced by its hash.
const LONGEST: usize = 48;

/// The names of the nodes in one body or arm.
#[derive(Default)]
pub(super) struct NodeNames {
    taken: HashSet<String>,
    /// Names from `id` options.
    given: HashSet<String>,
}

impl NodeNames {
    /// Adds the name of an input.
    pub(super) fn input(&mut self, name: String) {
        self.taken.insert(name);
    }

    /// Adds a name from an `id` option. It must be free, except under `#[cfg(..)]`.
    pub(super) fn given(
        &mut self,
        name: &str,
        at: impl ToTokens,
        conditional: bool,
        errors: &mut Errors,
    ) {
        let free = self.taken.insert(name.to_owned());
        if !free && !conditional {
            errors.at(at, format!("two nodes are named `{name}`; give one of them another `id`"));
        }
        self.given.insert(name.to_owned());
    }

    /// Returns the name of a `let`, which consists of its variables. If they are bound again, the
    /// called function is added.
    pub(super) fn bound(&mut self, variables: &str, calls: &str, conditional: bool) -> String {
        let wanted = as_name(variables.trim_start_matches('_'));
        if conditional || self.taken.insert(wanted.clone()) {
            self.taken.insert(wanted.clone());
            return wanted;
        }
        let call = calls.split(' ').next().unwrap_or_default();
        let last = call.rsplit("::").next().unwrap_or_default();
        let with_call = if last.is_empty() {
            format!("{wanted}_again")
        } else {
            format!("{wanted}_{}", as_name(last))
        };
        self.free(&with_call)
    }

    /// Returns the name, with a number if it is taken.
    pub(super) fn free(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut number = 1;
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        name
    }

    /// Names all nodes that have no name yet. A node with a unique call gets the name of the call.
    /// Several calls to one function are distinguished by their arguments.
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
                node.name =
                    self.unique_name(&short, counts.get(&short).copied().unwrap_or(1), node);
            }
        }
        if unnamed(tail) {
            tail.name =
                self.unique_name(&tail_short, counts.get(&tail_short).copied().unwrap_or(1), tail);
        }
        // These values are rarely nodes, so they get the remaining names.
        for statement in statements {
            if let Statement::Look(node) = statement {
                let wanted =
                    if node.name.is_empty() { short(node) } else { std::mem::take(&mut node.name) };
                node.name = self.free(&wanted);
            }
        }
    }

    fn unique_name(&mut self, short: &str, count: usize, node: &Node) -> String {
        if count <= 1 && !self.taken.contains(short) {
            return self.free(short);
        }
        let long = long(node).map(|arguments| {
            // Names of nodes are parts of paths, so quotes and spaces are removed.
            let arguments = arguments.replace('"', "").replace(", ", ",");
            cut(&as_name(&format!("{short}({arguments})")))
        });
        self.free(long.as_deref().unwrap_or(short))
    }
}

/// Returns the name, or its first part followed by a hash if it is too long.
fn cut(name: &str) -> String {
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    let head: String = name.chars().take(LONGEST - 7).collect();
    format!("{head}~{:06x}", fnv(name) & 0xff_ffff)
}

/// Returns the name of an unnamed node that is the only one of its kind.
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
            RouteHead::If(_) => "if".to_owned(),
            RouteHead::Match(_) => "match".to_owned(),
        },
        Work::Gate { .. } => "gate".to_owned(),
        Work::For { .. } => "for".to_owned(),
        Work::Map { step, .. } => lambda_name(&step.step, "map"),
        Work::Repeat { step, .. } => lambda_name(&step.step, "repeat"),
        Work::Race(_) => "race".to_owned(),
        Work::Fallback(_) => "fallback".to_owned(),
    })
}

/// Returns the function's name from a path.
fn last_word(calls: &str) -> String {
    calls.rsplit("::").next().unwrap_or_default().to_owned()
}

fn lambda_name(step: &LambdaBody, otherwise: &str) -> String {
    match step {
        LambdaBody::Future(step) => called(step),
        LambdaBody::Seq(_) => otherwise.to_owned(),
    }
}

/// Returns the text that distinguishes a node from others of its kind.
fn long(node: &Node) -> Option<String> {
    Some(match &node.work {
        Work::Step(expr)
        | Work::Future(expr)
        | Work::Value(expr)
        | Work::Check(expr)
        | Work::Never(expr) => arguments(expr),
        Work::Route(route) => match &route.head {
            // The source text, without parts that are computed before.
            RouteHead::If(_) => node.calls.strip_prefix("if ").unwrap_or(&node.calls).to_owned(),
            RouteHead::Match(_) => {
                node.calls.strip_prefix("match ").unwrap_or(&node.calls).to_owned()
            }
        },
        Work::Gate { question, .. } => written(question),
        Work::For { items, .. } | Work::Map { items, .. } => written(&items.expr),
        Work::Repeat { first, .. } => written(first),
        Work::Race(branches) | Work::Fallback(branches) => {
            let all: Vec<String> =
                branches.iter().map(|branch| of_branch(&branch.step, &branch.name)).collect();
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
