//! Generates expressions without `.await`, and calls that are awaited.

use super::choose::{Around, Chooser};
use super::syntax::{Call, Expr, Form, Function, Mode, Type, Value, Wrap};
use super::vocabulary::{OPERATIONS, STEPS, Step, WITH_CONTEXT};

impl Chooser<'_> {
    // Expressions.

    pub(crate) fn literal(&mut self, kind: Type) -> String {
        let number = self.rng.i64(0..40);
        let word = ["a", "bc", "def", "x y", "long text"][self.rng.usize(..5)];
        match kind {
            Type::Int => number.to_string(),
            Type::Text => format!("\"{word}\".to_owned()"),
            Type::Flag => self.rng.bool().to_string(),
            Type::Ints => {
                let numbers: Vec<String> =
                    (0..self.rng.usize(..4)).map(|_| self.rng.i64(0..40).to_string()).collect();
                if numbers.is_empty() {
                    "Vec::<i64>::new()".to_owned()
                } else {
                    format!("vec![{}]", numbers.join(", "))
                }
            }
            Type::Texts => format!("vec![\"{word}\".to_owned(), \"{number}\".to_owned()]"),
            Type::Maybe if self.rng.bool() => "None::<i64>".to_owned(),
            Type::Maybe => format!("Some({number})"),
            Type::Item => format!(
                "Item {{ number: {number}, label: \"{word}\".to_owned(), tags: Vec::new() }}"
            ),
            Type::Kind => format!("Kind::of({number})"),
            Type::Pair => format!("({number}, \"{word}\".to_owned())"),
            Type::Loose => format!("Loose::of({number})"),
            Type::Unit => "()".to_owned(),
            Type::Fault => format!("Fault::new(\"{word}\")"),
            Type::Approval => "Approval::granted()".to_owned(),
        }
    }

    pub(crate) fn expr(&mut self, kind: Type, depth: u32, around: &Around) -> Expr {
        let variable = self.variable(kind, around);
        if let Some(id) = variable
            && !self.one_in(3)
        {
            return Expr::Variable(id);
        }
        let fits: Vec<_> = OPERATIONS
            .iter()
            .filter(|operation| {
                operation.gives == kind && depth > 0 && self.can_be_taken(operation.takes, around)
            })
            .filter(|operation| {
                operation.feature.is_none_or(|feature| self.allows_look(feature, around))
            })
            .map(|operation| (operation.weight, *operation))
            .collect();
        if !fits.is_empty() && (variable.is_some() || !self.one_in(3)) {
            let operation = self.weighted(&fits);
            return Expr::Form(self.form(operation.text, operation.takes, depth - 1, around));
        }
        match variable {
            Some(id) => Expr::Variable(id),
            None => Expr::Literal(self.literal(kind)),
        }
    }

    /// Returns `true` if a variable is visible for each argument that must be one, and for each
    /// type without literals.
    pub(crate) fn can_be_taken(&self, takes: &[(Mode, Type)], around: &Around) -> bool {
        takes.iter().all(|(mode, kind)| {
            let needed = *mode == Mode::Name || matches!(kind, Type::Fault | Type::Approval);
            !needed || around.visible.iter().any(|id| self.variables[*id].kind == *kind)
        })
    }

    pub(crate) fn form(
        &mut self,
        text: &str,
        takes: &[(Mode, Type)],
        depth: u32,
        around: &Around,
    ) -> Form {
        let arguments = takes
            .iter()
            .map(|(mode, kind)| {
                let variable = if *mode == Mode::Name {
                    self.variable(*kind, around).map(Expr::Variable)
                } else {
                    None
                };
                (*mode, variable.unwrap_or_else(|| self.expr(*kind, depth, around)))
            })
            .collect();
        Form { text: text.to_owned(), site: self.site(), arguments }
    }

    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(u32, T)]) -> T {
        let sum: u32 = choices.iter().map(|(weight, _)| *weight).sum();
        let mut at = self.rng.u32(..sum);
        for (weight, choice) in choices {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return *choice,
            }
        }
        unreachable!("the number is smaller than the sum of the weights")
    }

    // Calls.

    pub(crate) fn call_of(
        &mut self,
        fits: impl Fn(&&Step) -> bool,
        around: &Around,
    ) -> Option<Call> {
        let more: &[Step] = if around.has_context { WITH_CONTEXT } else { &[] };
        let fits: Vec<_> = STEPS
            .iter()
            .chain(more)
            .filter(|step| {
                step.feature.is_none_or(|feature| self.allows_look(feature, around)) && fits(step)
            })
            .map(|step| (step.weight, *step))
            .collect();
        if fits.is_empty() {
            return None;
        }
        let step = self.weighted(&fits);
        Some(self.call(&step, around))
    }

    pub(crate) fn call(&mut self, step: &Step, around: &Around) -> Call {
        // If the step ran again after a crash, it would read its own write.
        let turns = step.text.starts_with("set_rate(") || step.text.starts_with("turn(");
        let alone = around.alone && !turns;
        let form = self.form(step.text, step.takes, 1, &Around { alone, ..around.clone() });
        Call { form, is_async: step.is_async, can_fail: step.can_fail }
    }

    /// Generates a call of another generated function.
    pub(crate) fn nested_call(&mut self, gives: Type, around: &Around) -> Option<Call> {
        let fits = |function: &&Function| {
            function.gives == gives && (!function.takes_context || around.has_context)
        };
        let fits: Vec<Function> =
            self.nested[..around.callable].iter().filter(fits).cloned().collect();
        let function = fits.get(self.rng.usize(..fits.len().max(1)))?;
        let takes: Vec<_> =
            function.parameters.iter().map(|id| (Mode::Own, self.variables[*id].kind)).collect();
        let mut words: Vec<String> = (0..takes.len()).map(|at| format!("{{{at}}}")).collect();
        if function.takes_context {
            words.insert(0, "cx".to_owned());
        }
        let form =
            self.form(&format!("{}({})", function.name, words.join(", ")), &takes, 1, around);
        Some(Call { form, is_async: true, can_fail: true })
    }

    pub(crate) fn wrapped(&mut self, call: Call, around: &Around) -> Value {
        if !call.is_async || !self.sometimes("wrap", 3) {
            return Value::Call { call, wrap: Wrap::Bare };
        }
        let owns = call
            .form
            .arguments
            .iter()
            .all(|(mode, expr)| *mode != Mode::Own || !matches!(expr, Expr::Form(_)));
        let wrap = match self.rng.u32(..3) {
            0 if call.can_fail => Wrap::MapErr,
            1 if owns && self.allows("loop") => Wrap::Loop,
            _ => Wrap::Block,
        };
        let _ = around;
        Value::Call { call, wrap }
    }
}
