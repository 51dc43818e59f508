//! Executes code with an `.await` as a future.

use std::future::poll_fn;
use std::task::Poll;

use super::eval::{Done, Flow, Frame, Interpreter, Running, binary};
use super::interpreted_code::{Code, Operator, Statement};
use super::value::Value;

impl Interpreter {
    /// Executes code that may wait.
    pub(super) fn run<'a>(&'a self, code: &'a Code, frame: &'a mut Frame) -> Running<'a> {
        Box::pin(async move {
            match code {
                Code::Await(inner) => match self.run(inner, frame).await? {
                    Value::Future(future) => self.future(future, frame.step.clone()).await,
                    other => panic!("{} cannot be awaited", other.debug()),
                },
                Code::Try(inner) => {
                    let value = self.run(inner, frame).await?;
                    self.tried(value, frame)
                }
                Code::Reference(inner) | Code::Dereference(inner) | Code::Cast(inner) => {
                    self.run(inner, frame).await
                }
                Code::Tuple(all) => {
                    let mut values = Vec::with_capacity(all.len());
                    for one in all {
                        values.push(self.run(one, frame).await?);
                    }
                    Ok(Value::tuple(values))
                }
                Code::Call(function, arguments) => {
                    let mut values = Vec::with_capacity(arguments.len());
                    for argument in arguments {
                        values.push(self.run(argument, frame).await?);
                    }
                    self.call(function, values, frame)
                }
                Code::Method { receiver, name, turbofish, arguments } => {
                    let receiver_value = self.run(receiver, frame).await?;
                    let mut values = Vec::with_capacity(arguments.len());
                    for argument in arguments {
                        values.push(self.run(argument, frame).await?);
                    }
                    self.method(receiver, receiver_value, name, turbofish, values, frame)
                }
                Code::Block(statements, last) => {
                    let outside = frame.scope.len();
                    let ended = self.statements(statements, last.as_deref(), frame).await;
                    frame.scope.truncate(outside);
                    ended
                }
                Code::If(condition, then, other) => {
                    let outside = frame.scope.len();
                    let holds = self.run(condition, frame).await?.as_bool();
                    let ended = match (holds, other) {
                        (true, _) => self.run(then, frame).await,
                        (false, Some(other)) => {
                            frame.scope.truncate(outside);
                            self.run(other, frame).await
                        }
                        (false, None) => Ok(Value::Unit),
                    };
                    frame.scope.truncate(outside);
                    ended
                }
                Code::Let(pattern, value) => {
                    let value = self.run(value, frame).await?;
                    self.matches(pattern, &value, frame).map(Value::Bool)
                }
                Code::Match(value, arms) => {
                    let value = self.run(value, frame).await?;
                    let outside = frame.scope.len();
                    for (pattern, body) in arms {
                        if self.matches(pattern, &value, frame)? {
                            let ended = self.run(body, frame).await;
                            frame.scope.truncate(outside);
                            return ended;
                        }
                        frame.scope.truncate(outside);
                    }
                    panic!("no arm fits {}", value.debug())
                }
                Code::Loop(body) => loop {
                    match self.run(body, frame).await {
                        Ok(_) | Err(Flow::Continue) => {}
                        Err(Flow::Break(value)) => return Ok(value),
                        Err(flow) => return Err(flow),
                    }
                },
                Code::While(condition, body) => {
                    while self.run(condition, frame).await?.as_bool() {
                        match self.run(body, frame).await {
                            Ok(_) | Err(Flow::Continue) => {}
                            Err(Flow::Break(_)) => break,
                            Err(flow) => return Err(flow),
                        }
                    }
                    Ok(Value::Unit)
                }
                Code::For(pattern, over, body) => {
                    let over = self.run(over, frame).await?;
                    for item in over.as_list() {
                        let outside = frame.scope.len();
                        self.matches(pattern, item, frame)?;
                        let ended = self.run(body, frame).await;
                        frame.scope.truncate(outside);
                        match ended {
                            Ok(_) | Err(Flow::Continue) => {}
                            Err(Flow::Break(_)) => break,
                            Err(flow) => return Err(flow),
                        }
                    }
                    Ok(Value::Unit)
                }
                Code::Return(Some(value)) => {
                    let value = self.run(value, frame).await?;
                    Err(Flow::Return(value))
                }
                Code::Assign(None, left, right) => {
                    let value = self.run(right, frame).await?;
                    self.assign(left, value, frame)
                }
                Code::Binary(operator, left, right) => {
                    let left = self.run(left, frame).await?;
                    match (operator, &left) {
                        (Operator::And, Value::Bool(false)) | (Operator::Or, Value::Bool(true)) => {
                            Ok(left)
                        }
                        _ => binary(*operator, &left, &self.run(right, frame).await?),
                    }
                }
                Code::Join(all) => {
                    let mut running = Vec::new();
                    for future in all {
                        match self.eval(future, frame)? {
                            Value::Future(future) => {
                                running.push(self.future(future, frame.step.clone()));
                            }
                            other => panic!("{} cannot be joined", other.debug()),
                        }
                    }
                    self.joined(running).await
                }
                other => self.eval(other, frame),
            }
        })
    }

    /// Runs futures together. The first turn is in their order, and later ones are in any order.
    async fn joined(&self, mut running: Vec<Running<'_>>) -> Done {
        let mut ended: Vec<Option<Value>> = vec![None; running.len()];
        let mut turn = 0;
        poll_fn(|cx| {
            let count = running.len();
            let first = if turn == 0 { 0 } else { self.world.below(count) };
            turn += 1;
            for at in 0..count {
                let at = (first + at) % count;
                if ended[at].is_none()
                    && let Poll::Ready(done) = running[at].as_mut().poll(cx)
                {
                    ended[at] = Some(done?);
                }
            }
            match ended.iter().all(Option::is_some) {
                true => Poll::Ready(Ok(Value::tuple(ended.iter().flatten().cloned().collect()))),
                false => Poll::Pending,
            }
        })
        .await
    }

    async fn statements(
        &self,
        statements: &[Statement],
        last: Option<&Code>,
        frame: &mut Frame,
    ) -> Done {
        for statement in statements {
            match statement {
                Statement::Expression(code) => drop(self.run(code, frame).await?),
                Statement::Let { pattern, value, otherwise, .. } => {
                    let value = self.run(value, frame).await?;
                    if !self.matches(pattern, &value, frame)? {
                        let Some(otherwise) = otherwise else {
                            panic!("{} does not fit the pattern of a `let`", value.debug())
                        };
                        return self.run(otherwise, frame).await;
                    }
                }
            }
        }
        match last {
            Some(last) => self.run(last, frame).await,
            None => Ok(Value::Unit),
        }
    }
}
