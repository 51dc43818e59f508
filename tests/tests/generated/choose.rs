//! Generates a random program that is valid Rust. Variable names, moves and shadowing are decided
//! here. The text is written elsewhere.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::syntax::{
    Arm, Block, Call, End, Expr, Form, Function, Id, Mode, Pattern, Program, Statement, Type,
    Value, Variable, Wrap,
};
use super::vocabulary::{ATTEMPT, ATTRIBUTED, CHANCES, CHECK, LATE, ROUNDS, Step};

/// Patterns of a `match`: the pattern, the type of its binding, and `true` if it has a guard.
type Patterns = &'static [(&'static str, Option<Type>, bool)];

/// Surroundings of a place in a program.
#[derive(Clone)]
pub(crate) struct Around {
    /// Variables that can be read.
    pub(crate) visible: Vec<Id>,
    /// Number of blocks that may still be nested.
    pub(crate) depth: u32,
    /// Return type of the function; `None` where `return` is not allowed.
    pub(crate) returns: Option<Type>,
    pub(crate) has_context: bool,
    /// Number of functions that can be called, that is, those generated before.
    pub(crate) callable: usize,
    /// `true` if no concurrent step changes shared data, so that all readers see the same.
    pub(crate) alone: bool,
}

/// Generates a program with this name and at most `size` statements, not counting those in blocks.
pub(crate) fn program(
    rng: &mut Rng,
    name: &str,
    size: usize,
    without: &BTreeSet<String>,
) -> Program {
    let mut chooser =
        Chooser { rng, without, variables: Vec::new(), nested: Vec::new(), sites: 0, size: 0 };
    let nested =
        if chooser.allows("nested") && chooser.one_in(4) { 1 + chooser.rng.usize(..2) } else { 0 };
    for at in 0..nested {
        let letter = ['a', 'b'][at];
        let gives = [Type::Int, Type::Text, Type::Maybe, Type::Item][chooser.rng.usize(..4)];
        let function = chooser.function(format!("{name}_{letter}"), gives, 1 + size / 3, false);
        chooser.nested.push(function);
    }
    let gives = [Type::Text, Type::Text, Type::Text, Type::Int, Type::Item, Type::Pair]
        [chooser.rng.usize(..6)];
    let size = 1 + chooser.rng.usize(..size);
    let main = chooser.function(name.to_owned(), gives, size, true);
    let kinds: Vec<Type> = main.parameters.iter().map(|id| chooser.variables[*id].kind).collect();
    let cases = if chooser.allows("cases") { 3 } else { 1 };
    let cases =
        (0..cases).map(|_| kinds.iter().map(|kind| chooser.literal(*kind)).collect()).collect();
    let Chooser { variables, nested, .. } = chooser;
    Program { name: name.to_owned(), variables, nested, main, cases }
}

pub(crate) struct Chooser<'a> {
    pub(crate) rng: &'a mut Rng,
    without: &'a BTreeSet<String>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) nested: Vec<Function>,
    sites: u64,
    /// Number of statements so far.
    size: usize,
}

impl Chooser<'_> {
    pub(crate) fn allows(&self, feature: &str) -> bool {
        !self.without.contains(feature)
    }

    /// Returns `true` if an expression may read data outside of the program.
    pub(crate) fn allows_look(&self, feature: &str, around: &Around) -> bool {
        let is_shared = matches!(feature, "shared" | "operators" | "turn");
        self.allows(feature) && (!is_shared || around.alone)
    }

    pub(crate) fn one_in(&mut self, number: u32) -> bool {
        self.rng.u32(..number) == 0
    }

    /// Returns `true` with a probability of 1 in `number` if the feature is enabled.
    pub(crate) fn sometimes(&mut self, feature: &str, number: u32) -> bool {
        self.allows(feature) && self.one_in(number)
    }

    pub(crate) fn site(&mut self) -> u64 {
        self.sites += 1;
        self.sites
    }

    fn function(&mut self, name: String, gives: Type, size: usize, is_main: bool) -> Function {
        let kinds = [
            Type::Int,
            Type::Int,
            Type::Text,
            Type::Ints,
            Type::Item,
            Type::Maybe,
            Type::Flag,
            Type::Kind,
        ];
        let parameters: Vec<Id> = (0..1 + self.rng.usize(..3))
            .map(|_| {
                let kind = kinds[self.rng.usize(..kinds.len())];
                self.new_variable(kind)
            })
            .collect();
        let takes_context = self.sometimes("cx", 4);
        let mut around = Around {
            visible: parameters.clone(),
            depth: 2,
            returns: Some(gives),
            has_context: takes_context,
            callable: self.nested.len(),
            alone: is_main,
        };
        let mut statements = Vec::new();
        for _ in 0..size {
            self.statement(&mut statements, &mut around);
        }
        let body = Block { statements, end: self.function_end(gives, &around) };
        let options =
            ["", "", "", "", "(concurrency = 1)", "(concurrency = 2)", "(stop = best_effort)"];
        let option = if self.allows("option") { options[self.rng.usize(..5)] } else { "" };
        Function { name, takes_context, parameters, gives, body, option }
    }

    fn function_end(&mut self, gives: Type, around: &Around) -> End {
        if around.depth > 0 && self.sometimes("branch-tail", 8) {
            let inner = Around { depth: around.depth - 1, ..around.clone() };
            let condition = self.expr(Type::Flag, 2, around);
            let [then, other] = [0, 1].map(|_| {
                let (mut inner, mut statements) = (inner.clone(), Vec::new());
                if self.rng.bool() {
                    self.statement(&mut statements, &mut inner);
                }
                Box::new(Block { statements, end: self.function_end(gives, &inner) })
            });
            return End::Branch { condition, then, other };
        }
        if self.sometimes("tail", 8) {
            // The function returns the error of its last step.
            let tails = |step: &&Step| {
                step.gives == gives
                    && step.is_async
                    && step.can_fail
                    && step.feature.is_none()
                    && !step.text.starts_with("fetch")
                    && !step.text.starts_with("charge")
            };
            if let Some(call) = self.call_of(tails, around) {
                return End::Tail(call);
            }
        }
        if gives != Type::Text {
            return End::Done(self.expr(gives, 2, around));
        }
        // The result contains every visible value.
        let shown = |kind: Type| !matches!(kind, Type::Unit);
        let all: Vec<Id> =
            around.visible.iter().copied().filter(|id| shown(self.variables[*id].kind)).collect();
        let text: Vec<String> = (0..all.len()).map(|at| format!("{{{{{at}}}:?}}")).collect();
        let arguments = all.into_iter().map(|id| (Mode::Name, Expr::Variable(id))).collect();
        End::Done(Expr::Form(Form {
            text: format!("format!(\"{}\")", text.join(" ")),
            site: 0,
            arguments,
        }))
    }

    // Variables.

    fn new_variable(&mut self, kind: Type) -> Id {
        let names =
            ["order", "total", "label", "note", "count", "found", "reply", "part", "text", "item"];
        let name = format!("{}{}", names[self.rng.usize(..names.len())], self.variables.len());
        self.variables.push(Variable { name, kind });
        self.variables.len() - 1
    }

    /// Declares a new variable. It may shadow a visible one.
    fn bind(&mut self, kind: Type, around: &mut Around) -> Id {
        let id = self.new_variable(kind);
        if !around.visible.is_empty() && self.sometimes("shadow", 6) {
            let old = around.visible[self.rng.usize(..around.visible.len())];
            self.variables[id].name = self.variables[old].name.clone();
        }
        if self.sometimes("bare-names", 8) {
            // Names that an expansion might use.
            let names = [
                "value", "node", "output", "outputs", "inputs", "context", "run", "step", "state",
                "b", "f",
            ];
            self.variables[id].name = names[self.rng.usize(..names.len())].to_owned();
        }
        let name = self.variables[id].name.clone();
        around.visible.retain(|other| self.variables[*other].name != name);
        around.visible.push(id);
        id
    }

    /// Declares two variables with different names for one pattern.
    fn bind_two(&mut self, [first, second]: [Type; 2], around: &mut Around) -> (Id, Id) {
        let first = self.bind(first, around);
        around.visible.retain(|id| *id != first);
        let second = self.bind(second, around);
        if self.variables[first].name == self.variables[second].name {
            self.variables[second].name += "_too";
        }
        around.visible.push(first);
        (first, second)
    }

    /// Picks a visible variable of a type, preferably a recent one.
    pub(crate) fn variable(&mut self, kind: Type, around: &Around) -> Option<Id> {
        let fits = |id: &Id| self.variables[*id].kind == kind;
        let all: Vec<Id> = around.visible.iter().copied().filter(fits).collect();
        let last = all.len().checked_sub(1)?;
        Some(if self.rng.bool() { all[last] } else { all[self.rng.usize(..all.len())] })
    }

    // Values.

    /// Generates the value of a `let`, which usually awaits a step.
    fn value(&mut self, kind: Type, around: &Around) -> Value {
        if around.depth > 0 {
            let inner = Around { depth: around.depth - 1, ..around.clone() };
            if self.sometimes("if", 9) {
                let condition = self.expr(Type::Flag, 2, around);
                let (mut first, mut second) = (inner.clone(), inner);
                if self.rng.bool() { &mut first } else { &mut second }.returns = None;
                let then = self.block(kind, &first);
                return Value::If { condition, then, other: Some(self.block(kind, &second)) };
            }
            if self.sometimes("if-let", 14) {
                let (name, maybe, then) = self.if_let(kind, around, &inner);
                let inner = Around { returns: None, ..inner };
                return Value::IfLet { name, maybe, then, other: Some(self.block(kind, &inner)) };
            }
            if self.sometimes("match", 9) {
                return self.matched(kind, around, &inner);
            }
        }
        match kind {
            Type::Maybe if self.sometimes("wrap", 3) => {
                if let Some(call) =
                    self.call_of(|step| step.gives == Type::Int && step.is_async, around)
                {
                    return Value::Call { call, wrap: Wrap::Some };
                }
            }
            Type::Pair if self.sometimes("wrap", 2) => {
                // If the step ran again after a crash, the second call would see the change.
                let changes = |step: &Step| {
                    step.text.starts_with("set_rate(") || step.text.starts_with("turn(")
                };
                let fits =
                    |step: &&Step| step.gives == Type::Int && step.is_async && !changes(step);
                let first = self.call_of(fits, around);
                let second = self.call_of(|step| step.gives == Type::Text && step.is_async, around);
                if let (Some(call), Some(second)) = (first, second) {
                    // A borrowed temporary does not live long enough for `join!`.
                    let borrows = |call: &Call| {
                        let of = |(mode, expr): &(Mode, Expr)| {
                            *mode == Mode::Ref && !matches!(expr, Expr::Variable(_))
                        };
                        call.form.arguments.iter().any(of)
                    };
                    let joined = !borrows(&call) && !borrows(&second) && self.sometimes("join", 2);
                    let wrap = match joined {
                        true => Wrap::Join(Box::new(second)),
                        false => Wrap::Pair(Box::new(second)),
                    };
                    return Value::Call { call, wrap };
                }
            }
            Type::Int if self.sometimes("repeat", 10) => return self.repeat(around),
            Type::Int | Type::Text | Type::Item if self.sometimes("fallback", 14) => {
                let fits = |step: &&Step| step.gives == kind && step.is_async && step.can_fail;
                let both = (self.call_of(fits, around), self.call_of(fits, around));
                if let (Some(first), Some(second)) = both {
                    return Value::Fallback { first, second };
                }
            }
            Type::Ints | Type::Texts if self.sometimes("map", 2) => return self.map(kind, around),
            Type::Approval if self.allows("gate") => {
                let about = self.variable(Type::Int, around);
                return Value::Gate { site: self.site(), about };
            }
            _ => {}
        }
        if let Some(call) = self.one_in(2).then(|| self.nested_call(kind, around)).flatten() {
            return Value::Call { call, wrap: Wrap::Bare };
        }
        if self.one_in(5) {
            return Value::Pure(self.pure(kind, around));
        }
        match self.call_of(|step| step.gives == kind, around) {
            Some(call) if call.is_async && call.can_fail && self.sometimes("timeout", 20) => {
                Value::Timeout(call)
            }
            Some(call) => self.wrapped(call, around),
            None => Value::Pure(self.pure(kind, around)),
        }
    }

    fn pure(&mut self, kind: Type, around: &Around) -> Expr {
        if kind == Type::Text && self.sometimes("chance", 2) {
            let choices: Vec<_> =
                CHANCES.iter().map(|operation| (operation.weight, *operation)).collect();
            let operation = self.weighted(&choices);
            return Expr::Form(self.form(operation.text, operation.takes, 0, around));
        }
        self.expr(kind, 2, around)
    }

    fn if_let(&mut self, kind: Type, around: &Around, inner: &Around) -> (Id, Box<Value>, Block) {
        let maybe = self.scrutinee(Type::Maybe, around);
        let mut inner = inner.clone();
        let name = self.bind(Type::Int, &mut inner);
        (name, Box::new(maybe), self.block(kind, &inner))
    }

    fn scrutinee(&mut self, kind: Type, around: &Around) -> Value {
        if self.sometimes("match-await", 3)
            && let Some(call) = self.call_of(|step| step.gives == kind && step.is_async, around)
        {
            return Value::Call { call, wrap: Wrap::Bare };
        }
        Value::Pure(self.expr(kind, 1, around))
    }

    fn matched(&mut self, kind: Type, around: &Around, inner: &Around) -> Value {
        let approval = self.variable(Type::Approval, around);
        let (scrutinee, patterns): (Value, Patterns) = match self.rng.u32(..7) {
            _ if approval.is_some() && self.rng.bool() => (
                Value::Pure(Expr::Variable(approval.expect("there is one"))),
                &[
                    ("Approval::Granted { .. }", None, false),
                    ("Approval::Denied { .. }", None, false),
                ],
            ),
            0 | 1 => (
                self.scrutinee(Type::Kind, around),
                match self.rng.u32(..2) {
                    0 => &[
                        ("Kind::Small({0})", Some(Type::Int), true),
                        ("Kind::Small({0})", Some(Type::Int), false),
                        ("Kind::Named { label: {0} }", Some(Type::Text), false),
                        ("Kind::Empty", None, false),
                    ],
                    _ => &[
                        ("Kind::Named { label: {0} }", Some(Type::Text), true),
                        ("_", None, false),
                    ],
                },
            ),
            2 if self.allows("patterns") => (
                self.scrutinee(Type::Loose, around),
                &[
                    ("Loose::Number({0} @ 0..=30)", Some(Type::Int), true),
                    ("Loose::Number({0})", Some(Type::Int), false),
                    ("Loose::Numbers({0})", Some(Type::Ints), false),
                    ("Loose::Word { word: {0} }", Some(Type::Text), false),
                ],
            ),
            3 if self.allows("match-result") => (
                Value::Tried(self.call(&ATTEMPT, around)),
                match self.rng.u32(..3) {
                    0 => &[
                        ("Ok({0})", Some(Type::Int), false),
                        ("Err({0})", Some(Type::Fault), false),
                    ],
                    1 => &[
                        ("Err(Fault::Step({0}))", Some(Type::Text), true),
                        ("Err({0})", Some(Type::Fault), false),
                        ("Ok({0})", Some(Type::Int), false),
                    ],
                    _ => &[
                        ("Ok({0} @ 10..)", Some(Type::Int), false),
                        ("Ok(_) | Err(Fault::Run(_))", None, false),
                        ("Err(Fault::Step({0}))", Some(Type::Text), false),
                    ],
                },
            ),
            6 if self.allows("match-result") => (
                Value::Tried(self.call(&LATE, around)),
                &[
                    ("Err(agentflow::Error::Timeout { .. })", None, false),
                    ("Ok({0})", Some(Type::Int), true),
                    ("Err(agentflow::Error::Lost { reason: {0} })", Some(Type::Text), false),
                    ("_", None, false),
                ],
            ),
            4 => (
                self.scrutinee(Type::Maybe, around),
                &[
                    ("Some({0})", Some(Type::Int), true),
                    ("Some(_)", None, false),
                    ("None", None, false),
                ],
            ),
            _ => (
                self.scrutinee(Type::Int, around),
                &[("0 | 1", None, false), ("2..=20", None, true), ("{0}", Some(Type::Int), false)],
            ),
        };
        let arms = patterns
            .iter()
            .enumerate()
            .map(|(at, (pattern, binds, guarded))| {
                let mut inner = inner.clone();
                // At least one arm must have a value.
                if at + 1 == patterns.len() && kind != Type::Unit {
                    inner.returns = None;
                }
                let name = binds.map(|kind| self.bind(kind, &mut inner));
                let guard = guarded.then(|| self.expr(Type::Flag, 1, &inner));
                Arm { pattern, name, guard, body: self.block(kind, &inner) }
            })
            .collect();
        Value::Match { scrutinee: Box::new(scrutinee), arms }
    }

    fn repeat(&mut self, around: &Around) -> Value {
        let first = self.expr(Type::Int, 1, around);
        let name = self.new_variable(Type::Int);
        let allowed =
            ROUNDS.iter().filter(|step| step.feature.is_none_or(|feature| self.allows(feature)));
        let steps: Vec<_> = allowed.map(|step| (step.weight, *step)).collect();
        let step = self.weighted(&steps);
        let arguments = vec![(Mode::Own, Expr::Variable(name))];
        let form = Form { text: step.text.to_owned(), site: self.site(), arguments };
        let call = Call { form, is_async: true, can_fail: true };
        let until = format!("*last % {} == 0", 2 + self.rng.u32(..4));
        Value::Repeat { first, name, call, until, max: 1 + self.rng.u32(..4) }
    }

    fn map(&mut self, kind: Type, around: &Around) -> Value {
        let over = self.expr(Type::Ints, 1, around);
        let each = if kind == Type::Ints { Type::Int } else { Type::Text };
        let depth = if self.allows("map-body") { around.depth.saturating_sub(1) } else { 0 };
        let mut inner = Around { depth, returns: None, alone: false, ..around.clone() };
        let name = self.bind(Type::Int, &mut inner);
        let mut body = Block::default();
        if self.sometimes("map-body", 2) {
            for _ in 0..1 + self.rng.usize(..2) {
                self.statement(&mut body.statements, &mut inner);
            }
        }
        let step = |step: &&Step| step.gives == each && step.is_async && step.can_fail;
        let value = match self.call_of(step, &inner) {
            Some(call) => Value::Call { call, wrap: Wrap::Bare },
            None => Value::Pure(self.expr(each, 1, &inner)),
        };
        body.end = End::Value(Box::new(value));
        Value::Map { name, over, body, serial: false }
    }

    /// Generates a block of a type within a function.
    fn block(&mut self, kind: Type, around: &Around) -> Block {
        let (mut inner, mut statements) = (around.clone(), Vec::new());
        for _ in 0..self.rng.usize(..3) {
            self.statement(&mut statements, &mut inner);
        }
        if inner.returns.is_some() && self.sometimes("return", 8) {
            return Block { statements, end: self.early_end(&inner) };
        }
        let end = match kind {
            Type::Unit => End::Unit,
            _ => End::Value(Box::new(self.value(kind, &inner))),
        };
        if statements.is_empty() && matches!(end, End::Unit) {
            self.write_statement(&mut statements, &mut inner);
        }
        Block { statements, end }
    }

    fn early_end(&mut self, around: &Around) -> End {
        match around.returns {
            Some(kind) if !self.one_in(3) => End::Return(self.expr(kind, 2, around)),
            _ => End::Fail(self.site()),
        }
    }

    // Statements.

    fn statement(&mut self, into: &mut Vec<Statement>, around: &mut Around) {
        self.size += 1;
        let statement = match self.rng.u32(..100) {
            0..=19 if self.allows("bare") => return self.write_statement(into, around),
            20..=23 if self.allows("assert") => {
                Statement::Assert { site: self.site(), condition: self.expr(Type::Flag, 1, around) }
            }
            24..=27 if self.allows("check") => {
                let value = Value::Call { call: self.call(&CHECK, around), wrap: Wrap::Bare };
                Statement::Bare { value, attribute: None }
            }
            28..=35 if around.depth > 0 && self.allows("unit-if") => {
                let inner = Around { depth: around.depth - 1, ..around.clone() };
                self.unit_statement(around, &inner)
            }
            36..=39 if around.returns.is_some() && self.allows("let-else") => {
                let maybe = self.scrutinee(Type::Maybe, around);
                let other = Block { statements: Vec::new(), end: self.early_end(around) };
                Statement::LetElse { name: self.bind(Type::Int, around), maybe, other }
            }
            40..=45 if around.depth > 0 && self.allows("for") => {
                let over = self.expr(Type::Ints, 1, around);
                let mut inner = Around { depth: around.depth - 1, returns: None, ..around.clone() };
                let name = self.bind(Type::Int, &mut inner);
                Statement::For { name, over, body: self.block(Type::Unit, &inner) }
            }
            46..=49 if self.allows("gate") && self.rng.bool() => {
                self.let_statement(Type::Approval, around)
            }
            50..=51 => {
                let value = self.value(Type::Int, around);
                Statement::Let {
                    pattern: Pattern::Ignored,
                    kind: Type::Int,
                    annotated: false,
                    attribute: None,
                    value,
                }
            }
            _ => {
                use Type::{Flag, Int, Ints, Item, Kind, Maybe, Pair, Text, Texts};
                let kinds = [
                    Int,
                    Int,
                    Int,
                    Text,
                    Text,
                    Text,
                    Item,
                    Item,
                    Ints,
                    Ints,
                    Texts,
                    Maybe,
                    Kind,
                    Pair,
                    Flag,
                    Type::Loose,
                ];
                let kind = kinds[self.rng.usize(..kinds.len())];
                self.let_statement(kind, around)
            }
        };
        into.push(statement);
    }

    fn let_statement(&mut self, kind: Type, around: &mut Around) -> Statement {
        let mut value = self.value(kind, around);
        let attribute = match &mut value {
            Value::Map { serial, .. } if self.one_in(2) => {
                *serial = true;
                Some("#[node(concurrency = 1)]")
            }
            _ => None,
        };
        let destructured =
            matches!(kind, Type::Pair | Type::Item) && self.sometimes("destructure", 3);
        let pattern = match kind {
            Type::Pair | Type::Item if destructured => {
                let (first, second) = self.bind_two([Type::Int, Type::Text], around);
                if kind == Type::Pair {
                    Pattern::Pair(first, second)
                } else {
                    Pattern::Item(first, second)
                }
            }
            Type::Item if self.sometimes("patterns", 4) => {
                let (whole, number) = self.bind_two([Type::Item, Type::Int], around);
                Pattern::Whole(whole, number)
            }
            _ => Pattern::Name(self.bind(kind, around)),
        };
        let annotated = self.sometimes("annotated", 4);
        Statement::Let { pattern, kind, annotated, attribute, value }
    }

    fn unit_statement(&mut self, around: &Around, inner: &Around) -> Statement {
        let value = match self.rng.u32(..6) {
            // `if .. { return ..; }`
            0 | 1 if around.returns.is_some() && self.allows("return") => {
                let (mut inner, mut statements) = (inner.clone(), Vec::new());
                if self.one_in(3) {
                    self.statement(&mut statements, &mut inner);
                }
                let condition = self.expr(Type::Flag, 2, around);
                Value::If {
                    condition,
                    then: Block { statements, end: self.early_end(&inner) },
                    other: None,
                }
            }
            2 if self.allows("match") => self.matched(Type::Unit, around, inner),
            3 if self.allows("if-let") => {
                let (name, maybe, then) = self.if_let(Type::Unit, around, inner);
                Value::IfLet { name, maybe, then, other: None }
            }
            _ => {
                let condition = self.expr(Type::Flag, 2, around);
                let then = self.block(Type::Unit, inner);
                let other = self.rng.bool().then(|| self.block(Type::Unit, inner));
                Value::If { condition, then, other }
            }
        };
        Statement::Bare { value, attribute: None }
    }

    /// Generates a statement with a side effect.
    fn write_statement(&mut self, into: &mut Vec<Statement>, around: &mut Around) {
        let attributed: Vec<_> = ATTRIBUTED
            .iter()
            .filter(|(step, _)| step.feature.is_none_or(|feature| self.allows(feature)))
            .collect();
        if !attributed.is_empty() && self.one_in(4) {
            let (step, attribute) = attributed[self.rng.usize(..attributed.len())];
            // A step that starts early does not wait for changes by others.
            let inner = Around { alone: false, ..around.clone() };
            let mut call = self.call(step, &inner);
            if *attribute == "#[node(unordered)]" {
                // The arguments are computed when the step begins, which may be at any time.
                call.form = self.form(step.text, step.takes, 0, &inner);
            }
            let value = Value::Call { call, wrap: Wrap::Bare };
            into.push(match step.gives {
                Type::Unit => Statement::Bare { value, attribute: Some(attribute) },
                kind => {
                    let pattern = Pattern::Name(self.bind(kind, around));
                    Statement::Let {
                        pattern,
                        kind,
                        annotated: false,
                        attribute: Some(attribute),
                        value,
                    }
                }
            });
            return;
        }
        let names: &[&str] = match around.alone {
            true => &["mail(", "charge(", "upsert(", "book(", "set_rate("],
            false => &["mail(", "charge(", "upsert(", "book("],
        };
        if let Some(call) =
            self.call_of(|step| names.iter().any(|name| step.text.starts_with(name)), around)
        {
            into.push(Statement::Bare {
                value: Value::Call { call, wrap: Wrap::Bare },
                attribute: None,
            });
        }
    }
}
