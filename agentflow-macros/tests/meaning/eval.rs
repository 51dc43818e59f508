//! Executes code. Code without an `.await` is executed at once, and the rest as a future, so that
//! steps can overtake each other.

use std::pin::Pin;
use std::rc::Rc;

use super::builder;
use super::builtins;
use super::globals::Globals;
use super::interpreted_code::{Code, Item, Operator, Pattern, Piece, Statement};
use super::kit::actions::Noted;
use super::step::{self, StepContext};
use super::value::{Closure, Future, Host, Name, Value};
use super::world::{World, is_native};

/// The end of code other than by its value.
#[derive(Clone)]
pub(super) enum Flow {
    Panic(String),
    Return(Value),
    Break(Value),
    Continue,
}

pub(super) type Done = Result<Value, Flow>;

/// A future of the interpreter.
pub(super) type Running<'a> = Pin<Box<dyn std::future::Future<Output = Done> + 'a>>;

pub(super) struct Interpreter {
    pub(super) globals: Rc<Globals>,
    pub(super) world: World,
}

/// Variables of a function.
pub(super) struct Frame {
    pub(super) scope: Vec<(Name, Value)>,
    /// The step that executes the function.
    pub(super) step: Option<Rc<StepContext>>,
    /// Type of the error that `?` returns.
    pub(super) error: Name,
    /// `true` if the end of the function is a mark in the log.
    pub(super) is_call: bool,
}

impl Frame {
    pub(super) fn new(step: Option<Rc<StepContext>>, error: Name) -> Self {
        Self { scope: Vec::new(), step, error, is_call: false }
    }
}

impl Interpreter {
    /// Evaluates an expression outside of a function.
    pub(super) fn constant(&self, code: &Code) -> Value {
        match self.eval(code, &mut Frame::new(None, "Fault")) {
            Ok(value) => value,
            Err(_) => panic!("an input of a program has no value"),
        }
    }

    /// Calls a function or a closure that does not wait.
    pub(super) fn apply(
        &self,
        function: &Value,
        arguments: Vec<Value>,
        step: &Option<Rc<StepContext>>,
    ) -> Done {
        match function {
            Value::Closure(closure) => {
                let mut frame = self.frame_of(closure, arguments, step);
                returned(self.eval(&closure.body, &mut frame))
            }
            Value::Function(item) if item.is_async => {
                Ok(Value::Future(Rc::new(Future::Call(Rc::clone(item), arguments))))
            }
            Value::Function(item) => {
                let body = item.body.as_ref().expect("a workflow is async");
                let mut frame = self.frame_of_item(item, arguments, step.clone());
                returned(self.eval(body, &mut frame))
            }
            Value::Constructor("", name) => Ok(self.native(name, arguments)),
            Value::Constructor(of, name) => builtins::function(of, name, arguments),
            other => panic!("{} cannot be called", other.debug()),
        }
    }

    pub(super) fn frame_of(
        &self,
        closure: &Closure,
        arguments: Vec<Value>,
        step: &Option<Rc<StepContext>>,
    ) -> Frame {
        let mut frame = Frame::new(step.clone(), closure.error);
        frame.scope.extend(closure.captured.iter().cloned());
        for (pattern, argument) in closure.parameters.iter().zip(arguments) {
            let bound = self.matches(pattern, &argument, &mut frame).unwrap_or(false);
            assert!(bound, "a parameter has a pattern that fits");
        }
        frame
    }

    pub(super) fn frame_of_item(
        &self,
        item: &Item,
        arguments: Vec<Value>,
        step: Option<Rc<StepContext>>,
    ) -> Frame {
        let mut frame = Frame::new(step, item.error);
        assert_eq!(item.parameters.len(), arguments.len(), "arguments of `{}`", item.name);
        for (pattern, argument) in item.parameters.iter().zip(arguments) {
            self.matches(pattern, &argument, &mut frame).unwrap_or(false);
        }
        frame
    }

    /// Executes the body of a function.
    pub(super) fn body<'a>(
        &'a self,
        item: Rc<Item>,
        arguments: Vec<Value>,
        step: Option<Rc<StepContext>>,
    ) -> Running<'a> {
        Box::pin(async move {
            let mut frame = self.frame_of_item(&item, arguments, step);
            let body = Rc::clone(item.body.as_ref().expect("a workflow is not executed here"));
            let ended = self.run(&body, &mut frame).await;
            if frame.is_call {
                self.world.mark(Noted::Leave);
            }
            returned(ended)
        })
    }

    /// Executes an async closure: the body of a step.
    pub(super) fn async_closure<'a>(
        &'a self,
        closure: &Value,
        arguments: Vec<Value>,
        step: Option<Rc<StepContext>>,
    ) -> Running<'a> {
        let future = self.apply(closure, arguments, &step);
        match future {
            Ok(Value::Future(future)) => self.future(future, step),
            other => Box::pin(async move { other }),
        }
    }

    /// Executes a future.
    pub(super) fn future<'a>(
        &'a self,
        future: Rc<Future>,
        step: Option<Rc<StepContext>>,
    ) -> Running<'a> {
        match &*future {
            Future::Call(item, arguments) => {
                step::call(self, Rc::clone(item), arguments.clone(), step)
            }
            Future::Native(name, arguments) => {
                let (name, arguments) = (*name, arguments.clone());
                Box::pin(async move {
                    let inner = |arguments: &[Value]| match &arguments[0] {
                        Value::Future(inner) => Rc::clone(inner),
                        other => panic!("{} is not a future", other.debug()),
                    };
                    match name {
                        "pace" => {
                            self.world.pace().await;
                            Ok(Value::Unit)
                        }
                        "item" => {
                            self.world.mark(Noted::Item);
                            self.future(inner(&arguments), step).await
                        }
                        _ => match self.future(inner(&arguments), step).await {
                            Ok(value) => Ok(Value::some(value)),
                            Err(Flow::Panic(_)) => Ok(Value::none()),
                            Err(flow) => Err(flow),
                        },
                    }
                })
            }
            Future::Ready(value) => {
                let value = value.clone();
                Box::pin(async move { Ok(value) })
            }
            Future::Block(_) => Box::pin(async move {
                let Future::Block(block) = &*future else { unreachable!("it is a block") };
                let mut frame = self.frame_of(block, Vec::new(), &step);
                returned(self.run(&block.body, &mut frame).await)
            }),
        }
    }

    /// Executes code that does not wait.
    pub(super) fn eval(&self, code: &Code, frame: &mut Frame) -> Done {
        match code {
            Code::Sync(inner) => self.eval(inner, frame),
            Code::Constant(value) => Ok(value.clone()),
            Code::Name(name) => Ok(self.name(name, frame)),
            Code::Path(of, name) => Ok(self.path(of, name)),
            Code::Call(function, arguments) => {
                let values = self.all(arguments, frame)?;
                self.call(function, values, frame)
            }
            Code::Method { receiver, name, turbofish, arguments } => {
                let value = self.eval(receiver, frame)?;
                let values = self.all(arguments, frame)?;
                self.method(receiver, value, name, turbofish, values, frame)
            }
            Code::Field(base, name) => {
                let base = self.eval(base, frame)?;
                Ok(match &base {
                    Value::Tuple(all) => all[name.parse::<usize>().expect("a number")].clone(),
                    other => field(&other.as_data().fields, name),
                })
            }
            Code::Index(base, at) => {
                let (base, at) = (self.eval(base, frame)?, self.eval(at, frame)?.as_int());
                let all = base.as_list();
                usize::try_from(at).ok().and_then(|at| all.get(at)).cloned().ok_or_else(|| {
                    let length = all.len();
                    Flow::Panic(format!(
                        "index out of bounds: the len is {length} but the index is {at}"
                    ))
                })
            }
            Code::Not(inner) => Ok(Value::Bool(!self.eval(inner, frame)?.as_bool())),
            Code::Negative(inner) => Ok(Value::Int(-self.eval(inner, frame)?.as_int())),
            Code::Reference(inner) | Code::Dereference(inner) | Code::Cast(inner) => {
                self.eval(inner, frame)
            }
            Code::Binary(operator, left, right) => {
                let left = self.eval(left, frame)?;
                match (operator, &left) {
                    (Operator::And, Value::Bool(false)) | (Operator::Or, Value::Bool(true)) => {
                        Ok(left)
                    }
                    (Operator::Add, Value::Data(data)) => {
                        let add = self.globals.method(data.of, "add").cloned();
                        let add = Value::Function(add.expect("the type has an operator"));
                        let right = self.eval(right, frame)?;
                        self.apply(&add, vec![left, right], &frame.step)
                    }
                    _ => binary(*operator, &left, &self.eval(right, frame)?),
                }
            }
            Code::Assign(operator, left, right) => {
                let mut value = self.eval(right, frame)?;
                if let Some(operator) = operator {
                    value = binary(*operator, &self.eval(left, frame)?, &value)?;
                }
                self.assign(left, value, frame)
            }
            Code::Tuple(all) => self.all(all, frame).map(Value::tuple),
            Code::List(all) => self.all(all, frame).map(Value::list),
            Code::Repeated(value, count) => {
                let (value, count) = (self.eval(value, frame)?, self.eval(count, frame)?.as_int());
                Ok(Value::list(vec![value; usize::try_from(count).unwrap_or_default()]))
            }
            Code::Range(start, end) => {
                let (start, end) =
                    (self.eval(start, frame)?.as_int(), self.eval(end, frame)?.as_int());
                Ok(Value::list((start..end).map(Value::Int).collect()))
            }
            Code::Struct { of, variant, fields, rest } => {
                let mut written = Vec::with_capacity(fields.len());
                for (name, value) in fields {
                    written.push((*name, self.eval(value, frame)?));
                }
                if let Some(rest) = rest {
                    let rest = self.eval(rest, frame)?;
                    let all = rest.as_data().fields.iter().map(|(name, value)| {
                        let given = written.iter().find(|(given, _)| given == name);
                        given.cloned().unwrap_or_else(|| (*name, value.clone()))
                    });
                    written = all.collect();
                }
                Ok(Value::data(of, variant, written))
            }
            Code::Block(statements, last) => {
                let outside = frame.scope.len();
                let ended = self.statements_at_once(statements, last.as_deref(), frame);
                frame.scope.truncate(outside);
                ended
            }
            Code::If(condition, then, other) => {
                let outside = frame.scope.len();
                let holds = self.eval(condition, frame)?.as_bool();
                let ended = match (holds, other) {
                    (true, _) => self.eval(then, frame),
                    (false, Some(other)) => {
                        frame.scope.truncate(outside);
                        self.eval(other, frame)
                    }
                    (false, None) => Ok(Value::Unit),
                };
                frame.scope.truncate(outside);
                ended
            }
            Code::Let(pattern, value) => {
                let value = self.eval(value, frame)?;
                self.matches(pattern, &value, frame).map(Value::Bool)
            }
            Code::Match(value, arms) => {
                let value = self.eval(value, frame)?;
                let outside = frame.scope.len();
                for (pattern, body) in arms {
                    if self.matches(pattern, &value, frame)? {
                        let ended = self.eval(body, frame);
                        frame.scope.truncate(outside);
                        return ended;
                    }
                    frame.scope.truncate(outside);
                }
                panic!("no arm fits {}", value.debug())
            }
            Code::Loop(body) => loop {
                match self.eval(body, frame) {
                    Ok(_) | Err(Flow::Continue) => {}
                    Err(Flow::Break(value)) => return Ok(value),
                    Err(flow) => return Err(flow),
                }
            },
            Code::While(condition, body) => {
                while self.eval(condition, frame)?.as_bool() {
                    match self.eval(body, frame) {
                        Ok(_) | Err(Flow::Continue) => {}
                        Err(Flow::Break(_)) => break,
                        Err(flow) => return Err(flow),
                    }
                }
                Ok(Value::Unit)
            }
            Code::For(pattern, over, body) => {
                let over = self.eval(over, frame)?;
                for item in over.as_list() {
                    let outside = frame.scope.len();
                    self.matches(pattern, item, frame)?;
                    let ended = self.eval(body, frame);
                    frame.scope.truncate(outside);
                    match ended {
                        Ok(_) | Err(Flow::Continue) => {}
                        Err(Flow::Break(_)) => break,
                        Err(flow) => return Err(flow),
                    }
                }
                Ok(Value::Unit)
            }
            Code::Break(value) => Err(Flow::Break(self.optional(value.as_deref(), frame)?)),
            Code::Continue => Err(Flow::Continue),
            Code::Return(value) => Err(Flow::Return(self.optional(value.as_deref(), frame)?)),
            Code::Try(inner) => {
                let value = self.eval(inner, frame)?;
                self.tried(value, frame)
            }
            Code::Closure { parameters, body, free } => Ok(Value::Closure(Rc::new(Closure {
                parameters: Rc::clone(parameters),
                body: Rc::clone(body),
                captured: captured(free, frame),
                error: frame.error,
            }))),
            Code::Async { body, free } => Ok(Value::Future(Rc::new(Future::Block(Closure {
                parameters: Rc::new(Vec::new()),
                body: Rc::clone(body),
                captured: captured(free, frame),
                error: frame.error,
            })))),
            Code::Format(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(plain) => text.push_str(plain),
                        Piece::Display(code) => text.push_str(&self.eval(code, frame)?.display()),
                        Piece::Debug(code) => text.push_str(&self.eval(code, frame)?.debug()),
                    }
                }
                Ok(Value::text(text))
            }
            Code::Panic(message) => {
                Err(Flow::Panic(self.eval(message, frame)?.as_text().to_owned()))
            }
            Code::Assert(condition, message) => match self.eval(condition, frame)?.as_bool() {
                true => Ok(Value::Unit),
                false => Err(Flow::Panic(self.eval(message, frame)?.as_text().to_owned())),
            },
            Code::Await(_) | Code::Join(_) => panic!("this code waits"),
        }
    }

    pub(super) fn optional(&self, value: Option<&Code>, frame: &mut Frame) -> Done {
        value.map_or(Ok(Value::Unit), |value| self.eval(value, frame))
    }

    pub(super) fn statements_at_once(
        &self,
        statements: &[Statement],
        last: Option<&Code>,
        frame: &mut Frame,
    ) -> Done {
        for statement in statements {
            match statement {
                Statement::Expression(code) => drop(self.eval(code, frame)?),
                Statement::Let { pattern, value, otherwise, .. } => {
                    let value = self.eval(value, frame)?;
                    if !self.matches(pattern, &value, frame)? {
                        let Some(otherwise) = otherwise else {
                            panic!("{} does not fit the pattern of a `let`", value.debug())
                        };
                        return self.eval(otherwise, frame);
                    }
                }
            }
        }
        self.optional(last, frame)
    }

    pub(super) fn all(&self, all: &[Code], frame: &mut Frame) -> Result<Vec<Value>, Flow> {
        let mut values = Vec::with_capacity(all.len());
        for one in all {
            values.push(self.eval(one, frame)?);
        }
        Ok(values)
    }

    pub(super) fn name(&self, name: Name, frame: &Frame) -> Value {
        if let Some((_, value)) = frame.scope.iter().rev().find(|(known, _)| *known == name) {
            return value.clone();
        }
        if let Some(item) = self.globals.function(name) {
            return Value::Function(Rc::clone(item));
        }
        match name {
            "None" => Value::none(),
            "Some" => Value::Constructor("Option", "Some"),
            "Ok" | "Err" => Value::Constructor("Result", name),
            "RATE" => Value::Host(Host::Rate),
            "LOCAL" => Value::Host(Host::Local),
            "GAUGE" => Value::Host(Host::Rate),
            name if is_native(name) => Value::Constructor("", name),
            name => match self.globals.static_type(name) {
                super::types::Ty::Named(of) => Value::data(of, "", Vec::new()),
                _ => panic!("`{name}` is not known here"),
            },
        }
    }

    /// Calls a function of the world.
    pub(super) fn native(&self, name: Name, values: Vec<Value>) -> Value {
        match name {
            "pace" | "item" | "caught" => Value::Future(Rc::new(Future::Native(name, values))),
            name => self.world.call(name, &values),
        }
    }

    pub(super) fn path(&self, of: Name, name: Name) -> Value {
        if let Some(item) = self.globals.method(of, name) {
            return Value::Function(Rc::clone(item));
        }
        match (of, name) {
            ("__private", "NEVER") => Value::Bool(false),
            ("__private" | "Number", "None") => Value::none(),
            ("__private", "Some") => Value::Constructor("Option", "Some"),
            ("__private", "Ok") => Value::Constructor("Result", "Ok"),
            ("__private", _) => Value::Unit,
            // A function that another one calls.
            (_, name) if name.starts_with(char::is_lowercase) => Value::Constructor(of, name),
            _ => Value::data(of, name, Vec::new()),
        }
    }

    pub(super) fn call(&self, function: &Code, values: Vec<Value>, frame: &mut Frame) -> Done {
        match function {
            Code::Sync(inner) => return self.call(inner, values, frame),
            Code::Name(name)
                if !frame.scope.iter().any(|(known, _)| known == name) && is_native(name) =>
            {
                return Ok(self.native(name, values));
            }
            Code::Path("Called", "begin") => {
                self.world.mark(Noted::Enter);
                frame.is_call = true;
                return Ok(Value::Unit);
            }
            Code::Path(of, name) if self.globals.method(of, name).is_none() => {
                if let Some(value) = builder::function(of, name, &values) {
                    return value;
                }
                return builtins::function(of, name, values);
            }
            _ => {}
        }
        let function = self.eval(function, frame)?;
        self.apply(&function, values, &frame.step)
    }

    pub(super) fn method(
        &self,
        receiver: &Code,
        value: Value,
        name: Name,
        turbofish: &[super::types::Ty],
        mut arguments: Vec<Value>,
        frame: &mut Frame,
    ) -> Done {
        if let Value::Host(host) = &value {
            return builder::method(self, host, name, turbofish, arguments, &frame.step);
        }
        if let Value::Data(data) = &value
            && let Some(item) = self.globals.method(data.of, name)
        {
            arguments.insert(0, value.clone());
            return self.apply(&Value::Function(Rc::clone(item)), arguments, &frame.step);
        }
        if let Some(changed) = builtins::changing(&value, name, &arguments) {
            return self.assign(receiver, changed, frame);
        }
        builtins::method(self, value, name, arguments, &frame.step)
    }

    pub(super) fn assign(&self, place: &Code, value: Value, frame: &mut Frame) -> Done {
        match place {
            Code::Sync(inner) | Code::Dereference(inner) | Code::Reference(inner) => {
                self.assign(inner, value, frame)
            }
            Code::Name(name) => {
                let known = frame.scope.iter_mut().rev().find(|(known, _)| known == name);
                known.unwrap_or_else(|| panic!("`{name}` is not a variable")).1 = value;
                Ok(Value::Unit)
            }
            _ => panic!("the interpreter changes only variables"),
        }
    }

    /// Applies `?`.
    pub(super) fn tried(&self, value: Value, frame: &Frame) -> Done {
        let (variant, inner) = value.variant();
        match (variant, inner) {
            ("Ok" | "Some", Some(inner)) => Ok(inner.clone()),
            ("Err", Some(error)) => {
                let error = match frame.error {
                    "Fault" => builtins::into_fault(error),
                    _ => error.clone(),
                };
                Err(Flow::Return(Value::err(error)))
            }
            _ => panic!("`?` is not known for {}", value.debug()),
        }
    }

    /// Matches a value, and binds the names of the pattern.
    pub(super) fn matches(
        &self,
        pattern: &Pattern,
        value: &Value,
        frame: &mut Frame,
    ) -> Result<bool, Flow> {
        Ok(match pattern {
            Pattern::Ignored => true,
            Pattern::Bind(name, inner) => {
                if let Some(inner) = inner
                    && !self.matches(inner, value, frame)?
                {
                    return Ok(false);
                }
                frame.scope.push((name, value.clone()));
                true
            }
            Pattern::Tuple(all) => {
                let Value::Tuple(values) = value else {
                    panic!("{} is not a tuple of {}", value.debug(), all.len())
                };
                assert_eq!(values.len(), all.len(), "parts of a tuple");
                for (pattern, value) in all.iter().zip(values.iter()) {
                    if !self.matches(pattern, value, frame)? {
                        return Ok(false);
                    }
                }
                true
            }
            Pattern::Data { variant, fields, .. } => {
                let data = value.as_data();
                if data.variant != *variant {
                    return Ok(false);
                }
                for (name, pattern) in fields {
                    if !self.matches(pattern, &field(&data.fields, name), frame)? {
                        return Ok(false);
                    }
                }
                true
            }
            Pattern::Constant(constant) => constant == value,
            Pattern::Range(first, last) => (*first..=*last).contains(&value.as_int()),
            Pattern::Or(all) => {
                for one in all {
                    if self.matches(one, value, frame)? {
                        return Ok(true);
                    }
                }
                false
            }
            Pattern::Guarded(inner, guard) => {
                self.matches(inner, value, frame)? && self.eval(guard, frame)?.as_bool()
            }
        })
    }
}

pub(super) fn field(fields: &[(Name, Value)], name: Name) -> Value {
    let found = fields.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("there is no field `{name}`")).1.clone()
}

pub(super) fn captured(free: &[Name], frame: &Frame) -> Vec<(Name, Value)> {
    let find = |name: &Name| frame.scope.iter().rev().find(|(known, _)| known == name).cloned();
    free.iter().filter_map(find).collect()
}

/// Ends a function or a closure.
pub(super) fn returned(ended: Done) -> Done {
    match ended {
        Err(Flow::Return(value)) => Ok(value),
        ended => ended,
    }
}

pub(super) fn binary(operator: Operator, left: &Value, right: &Value) -> Done {
    use Operator as Op;
    let overflow = |what: &str| Flow::Panic(format!("attempt to {what} with overflow"));
    let checked =
        |value: Option<i64>, what: &str| value.map(Value::Int).ok_or_else(|| overflow(what));
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        let (left, right) = (*left, *right);
        return match operator {
            Op::Add => checked(left.checked_add(right), "add"),
            Op::Subtract => checked(left.checked_sub(right), "subtract"),
            Op::Multiply => checked(left.checked_mul(right), "multiply"),
            Op::Divide if right == 0 => Err(Flow::Panic("attempt to divide by zero".to_owned())),
            Op::Divide => Ok(Value::Int(left / right)),
            Op::Remainder => Ok(Value::Int(left % right)),
            Op::Equal => Ok(Value::Bool(left == right)),
            Op::NotEqual => Ok(Value::Bool(left != right)),
            Op::Less => Ok(Value::Bool(left < right)),
            Op::LessOrEqual => Ok(Value::Bool(left <= right)),
            Op::Greater => Ok(Value::Bool(left > right)),
            Op::GreaterOrEqual => Ok(Value::Bool(left >= right)),
            Op::And | Op::Or => panic!("numbers are not conditions"),
        };
    }
    match operator {
        Op::Equal => Ok(Value::Bool(left == right)),
        Op::NotEqual => Ok(Value::Bool(left != right)),
        Op::And | Op::Or => Ok(Value::Bool(right.as_bool())),
        Op::Add => Ok(Value::text(format!("{}{}", left.as_text(), right.as_text()))),
        _ => panic!("the interpreter does not know this operator for {}", left.debug()),
    }
}
