//! Reduces a differing program while it differs in the same way: removes statements, replaces
//! values by literals and routers by one of their arms. Compiling is done by the caller.

use std::collections::BTreeSet;

use super::syntax::{
    Block, Call, End, Expr, Form, Id, Pattern, Program, Statement, Type, Value, Wrap,
};

/// Returns all programs that are smaller by one change, the smallest first.
pub(crate) fn smaller(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let size = size(program);
    for target in 0.. {
        let mut smaller = program.clone();
        let mut change = Change { left: target, done: false };
        change.program(&mut smaller);
        if !change.done {
            break;
        }
        if is_whole(&smaller) {
            all.push(smaller);
        }
    }
    all.retain(|smaller| self::size(smaller) < size);
    all.sort_by_key(self::size);
    all
}

/// Returns the program under another name.
pub(crate) fn renamed(program: &Program, name: &str) -> Program {
    let mut program = program.clone();
    let old = std::mem::replace(&mut program.name, name.to_owned());
    let rename = |text: &mut String| {
        if let Some(rest) = text.strip_prefix(&old)
            && rest.starts_with(['_', '(']) | rest.is_empty()
        {
            *text = format!("{name}{rest}");
        }
    };
    for function in program.nested.iter_mut().chain([&mut program.main]) {
        rename(&mut function.name);
        forms(&mut function.body, &mut |form| rename(&mut form.text));
    }
    program
}

fn size(program: &Program) -> usize {
    format!("{:?}{:?}{:?}", program.main, program.nested, program.cases).len()
}

/// Returns `true` if each variable that is read is bound, and each called function exists.
fn is_whole(program: &Program) -> bool {
    let (mut read, mut bound, mut called) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for function in program.nested.iter().chain([&program.main]) {
        bound.extend(function.parameters.iter().copied());
        let mut body = function.body.clone();
        bindings(&mut body, &mut bound);
        forms(&mut body, &mut |form| {
            called.insert(form.text.split('(').next().unwrap_or_default().to_owned());
        });
        reads(&mut body, &mut read);
    }
    let prefix = format!("{}_", program.name);
    let defined = |name: &String| program.nested.iter().any(|function| function.name == *name);
    read.is_subset(&bound) && called.iter().filter(|name| name.starts_with(&prefix)).all(defined)
}

/// The change at a place. `left` counts the places down to it.
struct Change {
    left: usize,
    done: bool,
}

impl Change {
    /// Returns `true` at the place of the change.
    fn here(&mut self) -> bool {
        if self.done {
            return false;
        }
        self.done = self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.done
    }

    fn program(&mut self, program: &mut Program) {
        if program.cases.len() > 1 {
            for case in 0..program.cases.len() {
                if self.here() {
                    program.cases = vec![program.cases[case].clone()];
                    return;
                }
            }
        }
        for at in 0..program.nested.len() {
            if self.here() {
                program.nested.remove(at);
                return;
            }
        }
        for function in program.nested.iter_mut().chain([&mut program.main]) {
            if !function.option.is_empty() && self.here() {
                function.option = "";
            }
            self.block(&mut function.body, Some(function.gives));
        }
    }

    fn block(&mut self, block: &mut Block, gives: Option<Type>) {
        for at in 0..block.statements.len() {
            if self.here() {
                block.statements.remove(at);
                return;
            }
            let inner: Vec<Block> = match &block.statements[at] {
                Statement::Bare { value, .. }
                | Statement::Let { pattern: Pattern::Ignored, value, .. } => blocks(value),
                Statement::For { body, .. } => vec![body.clone()],
                _ => Vec::new(),
            };
            for inner in inner {
                if matches!(inner.end, End::Unit | End::Value(_)) && self.here() {
                    block.statements.splice(at..=at, inner.statements);
                    return;
                }
            }
        }
        for statement in &mut block.statements {
            self.statement(statement);
        }
        match &mut block.end {
            End::Value(value) => self.value(value, None),
            End::Done(expr) => {
                if let Some(literal) = gives.and_then(literal)
                    && !matches!(expr, Expr::Literal(_))
                    && self.here()
                {
                    *expr = literal;
                }
            }
            End::Tail(call) => self.call(call),
            End::Branch { condition, then, other } => {
                for inner in [then.clone(), other.clone()] {
                    if self.here() {
                        block.statements.extend(inner.statements);
                        block.end = inner.end;
                        return;
                    }
                }
                self.expr(condition, Some(Type::Flag));
                self.block(then, gives);
                self.block(other, gives);
            }
            End::Return(_) | End::Fail(_) | End::Unit => {}
        }
    }

    fn statement(&mut self, statement: &mut Statement) {
        match statement {
            Statement::Let { kind, annotated, attribute, value, .. } => {
                if *annotated && self.here() {
                    *annotated = false;
                }
                if matches!(value, Value::Map { .. }) || attribute.is_none() {
                    self.value(value, Some(*kind));
                }
            }
            Statement::Bare { value, .. } => self.value(value, None),
            Statement::Assert { condition, .. } => self.expr(condition, Some(Type::Flag)),
            Statement::LetElse { maybe, .. } => self.value(maybe, Some(Type::Maybe)),
            Statement::For { over, body, .. } => {
                self.expr(over, Some(Type::Ints));
                self.block(body, None);
            }
        }
    }

    fn value(&mut self, value: &mut Value, kind: Option<Type>) {
        if let Some(literal) = kind.and_then(literal)
            && !matches!(value, Value::Pure(Expr::Literal(_)))
            && self.here()
        {
            *value = Value::Pure(literal);
            return;
        }
        match value {
            Value::Pure(expr) => self.expr(expr, kind),
            Value::Call { call, wrap } => {
                if matches!(wrap, Wrap::MapErr | Wrap::Block) && self.here() {
                    *wrap = Wrap::Bare;
                }
                self.call(call);
            }
            Value::If { condition, then, other } => {
                self.expr(condition, Some(Type::Flag));
                self.block(then, None);
                if let Some(other) = other {
                    self.block(other, None);
                }
            }
            Value::IfLet { maybe, then, other, .. } => {
                self.value(maybe, Some(Type::Maybe));
                self.block(then, None);
                if let Some(other) = other {
                    self.block(other, None);
                }
            }
            Value::Match { arms, .. } => {
                arms.iter_mut().for_each(|arm| self.block(&mut arm.body, None));
            }
            Value::Map { over, body, .. } => {
                self.expr(over, Some(Type::Ints));
                self.block(body, None);
            }
            Value::Repeat { call, .. } | Value::Timeout(call) | Value::Tried(call) => {
                self.call(call);
            }
            Value::Fallback { first, second } => {
                self.call(first);
                self.call(second);
            }
            Value::Gate { about, .. } => {
                if about.is_some() && self.here() {
                    *about = None;
                }
            }
        }
    }

    fn call(&mut self, call: &mut Call) {
        for (_, argument) in &mut call.form.arguments {
            self.expr(argument, None);
        }
    }

    fn expr(&mut self, expr: &mut Expr, kind: Option<Type>) {
        if let (Expr::Form(_), Some(literal)) = (&*expr, kind.and_then(literal))
            && self.here()
        {
            *expr = literal;
        }
    }
}

/// Returns the blocks of a router.
fn blocks(value: &Value) -> Vec<Block> {
    match value {
        Value::If { then, other, .. } | Value::IfLet { then, other, .. } => {
            [then].into_iter().chain(other).cloned().collect()
        }
        Value::Match { arms, .. } => arms.iter().map(|arm| arm.body.clone()).collect(),
        _ => Vec::new(),
    }
}

fn literal(kind: Type) -> Option<Expr> {
    let text = match kind {
        Type::Int => "1",
        Type::Text => "\"a\".to_owned()",
        Type::Flag => "true",
        Type::Ints => "vec![1, 2]",
        Type::Texts => "vec![\"a\".to_owned()]",
        Type::Maybe => "Some(1)",
        Type::Item => "Item { number: 1, label: \"a\".to_owned(), tags: Vec::new() }",
        Type::Kind => "Kind::Empty",
        Type::Pair => "(1, \"a\".to_owned())",
        Type::Loose => "Loose::Number(1)",
        Type::Unit | Type::Fault | Type::Approval => return None,
    };
    Some(Expr::Literal(text.to_owned()))
}

// Walks over a block. The callback decides which parts are kept.

fn forms(block: &mut Block, see: &mut impl FnMut(&mut Form)) {
    walk(block, &mut |at| {
        if let At::Form(form) = at {
            see(form);
        }
    });
}

fn reads(block: &mut Block, read: &mut BTreeSet<Id>) {
    walk(block, &mut |at| {
        if let At::Read(id) = at {
            read.insert(id);
        }
    });
}

fn bindings(block: &mut Block, bound: &mut BTreeSet<Id>) {
    walk(block, &mut |at| {
        if let At::Bound(id) = at {
            bound.insert(id);
        }
    });
}

/// An element that a walk visits.
enum At<'a> {
    Form(&'a mut Form),
    Read(Id),
    Bound(Id),
}

type See<'a> = &'a mut dyn FnMut(At<'_>);

fn walk(block: &mut Block, see: See<'_>) {
    for statement in &mut block.statements {
        match statement {
            Statement::Let { pattern, value, .. } => {
                match pattern {
                    Pattern::Name(id) => see(At::Bound(*id)),
                    Pattern::Pair(a, b) | Pattern::Item(a, b) | Pattern::Whole(a, b) => {
                        [*a, *b].into_iter().for_each(|id| see(At::Bound(id)));
                    }
                    Pattern::Ignored => {}
                }
                walk_value(value, see);
            }
            Statement::Bare { value, .. } => walk_value(value, see),
            Statement::Assert { condition, .. } => walk_expr(condition, see),
            Statement::LetElse { name, maybe, other } => {
                see(At::Bound(*name));
                walk_value(maybe, see);
                walk(other, see);
            }
            Statement::For { name, over, body } => {
                see(At::Bound(*name));
                walk_expr(over, see);
                walk(body, see);
            }
        }
    }
    match &mut block.end {
        End::Value(value) => walk_value(value, see),
        End::Return(expr) | End::Done(expr) => walk_expr(expr, see),
        End::Tail(call) => walk_form(&mut call.form, see),
        End::Branch { condition, then, other } => {
            walk_expr(condition, see);
            walk(then, see);
            walk(other, see);
        }
        End::Unit | End::Fail(_) => {}
    }
}

fn walk_value(value: &mut Value, see: See<'_>) {
    match value {
        Value::Pure(expr) => walk_expr(expr, see),
        Value::Call { call, wrap } => {
            walk_form(&mut call.form, see);
            if let Wrap::Pair(second) | Wrap::Join(second) = wrap {
                walk_form(&mut second.form, see);
            }
        }
        Value::If { condition, then, other } => {
            walk_expr(condition, see);
            walk(then, see);
            other.iter_mut().for_each(|other| walk(other, see));
        }
        Value::IfLet { name, maybe, then, other } => {
            see(At::Bound(*name));
            walk_value(maybe, see);
            walk(then, see);
            other.iter_mut().for_each(|other| walk(other, see));
        }
        Value::Match { scrutinee, arms } => {
            walk_value(scrutinee, see);
            for arm in arms {
                arm.name.iter().for_each(|id| see(At::Bound(*id)));
                arm.guard.iter_mut().for_each(|guard| walk_expr(guard, see));
                walk(&mut arm.body, see);
            }
        }
        Value::Map { name, over, body, .. } => {
            see(At::Bound(*name));
            walk_expr(over, see);
            walk(body, see);
        }
        Value::Repeat { first, name, call, .. } => {
            see(At::Bound(*name));
            walk_expr(first, see);
            walk_form(&mut call.form, see);
        }
        Value::Fallback { first, second } => {
            walk_form(&mut first.form, see);
            walk_form(&mut second.form, see);
        }
        Value::Timeout(call) | Value::Tried(call) => walk_form(&mut call.form, see),
        Value::Gate { about, .. } => about.iter().for_each(|id| see(At::Read(*id))),
    }
}

fn walk_form(form: &mut Form, see: See<'_>) {
    for (_, argument) in &mut form.arguments {
        walk_expr(argument, see);
    }
    see(At::Form(form));
}

fn walk_expr(expr: &mut Expr, see: See<'_>) {
    match expr {
        Expr::Literal(_) => {}
        Expr::Variable(id) => see(At::Read(*id)),
        Expr::Form(form) => walk_form(form, see),
    }
}

#[cfg(test)]
mod tests {
    use super::super::choose;
    use super::*;

    #[test]
    fn smaller_programs_are_smaller_and_whole() {
        for number in 0..50 {
            let mut rng = fastrand::Rng::with_seed(number);
            let program = choose::program(&mut rng, "p1", 7, &BTreeSet::new());
            assert!(is_whole(&program), "{program:?}");
            let smaller = smaller(&program);
            assert!(!smaller.is_empty());
            assert!(
                smaller.iter().all(|smaller| size(smaller) < size(&program) && is_whole(smaller))
            );
        }
    }

    #[test]
    fn a_program_that_is_renamed_calls_its_own_functions() {
        let text = |program: &Program| format!("{:?} {:?}", program.main, program.nested);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut programs = (0..200).map(|_| choose::program(&mut rng, "p1", 7, &BTreeSet::new()));
        let program = programs
            .find(|program| text(program).contains("\"p1_a("))
            .expect("some call nested functions");
        let renamed = renamed(&program, "p2");
        assert!(is_whole(&renamed));
        assert!(!text(&renamed).contains("p1"));
    }
}
