//! Evaluates one line of arithmetic by recursive descent. There are no variables.
//!
//! Numbers are `f64`, as in JSON. `^` is right-associative and binds more tightly than a preceding
//! sign, as in mathematics: `-2^2` is -4, and `2^3^2` is 512.

use agentflow_core::tool::ToolError;

/// Maximum length of an expression in bytes.
const LONGEST: usize = 4096;

/// Maximum nesting depth. It bounds the use of the stack.
const DEEPEST: u32 = 64;

/// Evaluates an expression such as `2 * (3 + 4)`.
///
/// # Errors
/// A message with the position of the mistake, or the reason why there is no number.
pub(super) fn value_of(text: &str) -> Result<f64, ToolError> {
    if text.len() > LONGEST {
        return Err(wrong(format!(
            "the expression has {} bytes, and {LONGEST} is the most; compute it in parts",
            text.len()
        )));
    }
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.sum()?;
    match reader.peek() {
        // JSON has no infinity and no NaN.
        None if value.is_finite() => Ok(value),
        None => Err(wrong(format!(
            "the result is {value}, which is not a number; check for a division by zero"
        ))),
        Some(found) => Err(reader.unexpected(found, "an operator such as `+`")),
    }
}

fn wrong(problem: impl Into<String>) -> ToolError {
    ToolError::invalid_arguments(problem)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: u32,
}

impl Reader<'_> {
    /// Skips white space and returns the next character.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed.chars().next()
    }

    /// Consumes a character if it is the next one.
    fn take(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.at += wanted.len_utf8();
        }
        is_next
    }

    fn unexpected(&self, found: char, expected: &str) -> ToolError {
        wrong(format!(
            "unexpected `{}` at byte {}, expected {expected}",
            found.escape_debug(),
            self.at
        ))
    }

    fn sum(&mut self) -> Result<f64, ToolError> {
        let mut value = self.product()?;
        loop {
            if self.take('+') {
                value += self.product()?;
            } else if self.take('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, ToolError> {
        let mut value = self.signed()?;
        loop {
            if self.take('*') {
                value *= self.signed()?;
            } else if self.take('/') {
                value /= self.signed()?;
            } else if self.take('%') {
                value %= self.signed()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn signed(&mut self) -> Result<f64, ToolError> {
        // All recursion passes through here, so the check bounds the stack.
        if self.depth == DEEPEST {
            return Err(wrong(format!(
                "the expression is nested more than {DEEPEST} deep; compute it in parts"
            )));
        }
        self.depth += 1;
        let value = if self.take('-') {
            -self.signed()?
        } else if self.take('+') {
            self.signed()?
        } else {
            let base = self.single()?;
            // The right operand may have a sign, as in `2^-3`, and further powers, so it is parsed
            // by `signed`.
            if self.take('^') { base.powf(self.signed()?) } else { base }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn single(&mut self) -> Result<f64, ToolError> {
        match self.peek() {
            Some('(') => {
                self.take('(');
                let value = self.sum()?;
                self.close().map(|()| value)
            }
            Some('0'..='9' | '.') => self.number(),
            Some('a'..='z' | 'A'..='Z') => self.named(),
            Some(found) => Err(self.unexpected(found, "a number")),
            None => Err(wrong("the expression ends where a number is expected")),
        }
    }

    fn close(&mut self) -> Result<(), ToolError> {
        match self.peek() {
            Some(')') => {
                self.at += 1;
                Ok(())
            }
            Some(found) => Err(self.unexpected(found, "`)`")),
            None => Err(wrong("the expression ends without `)`")),
        }
    }

    fn number(&mut self) -> Result<f64, ToolError> {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| {
            rest[from..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count()
        };
        let mut length = digits(0);
        // An `e` without digits after it is not an exponent; it may be the constant.
        if let Some(b'e' | b'E') = rest.get(length) {
            let sign = usize::from(matches!(rest.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(length + 1 + sign);
            if exponent > 0 {
                length += 1 + sign + exponent;
            }
        }
        let written = &self.text[self.at..self.at + length];
        let number = written
            .parse()
            .map_err(|_| wrong(format!("`{written}` at byte {} is not a number", self.at)))?;
        self.at += length;
        Ok(number)
    }

    /// Parses a constant, or a function with its arguments.
    fn named(&mut self) -> Result<f64, ToolError> {
        let rest = &self.text[self.at..];
        let length =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, at) = (&rest[..length], self.at);
        self.at += length;
        if !self.take('(') {
            return match name {
                "pi" => Ok(std::f64::consts::PI),
                "e" => Ok(std::f64::consts::E),
                _ => Err(wrong(format!(
                    "`{name}` at byte {at} is not known; there are `pi`, `e` and functions such as `sqrt(2)`"
                ))),
            };
        }
        let mut arguments = Vec::new();
        if self.peek() != Some(')') {
            arguments.push(self.sum()?);
            while self.take(',') {
                arguments.push(self.sum()?);
            }
        }
        self.close()?;
        applied(name, &arguments).map_err(|error| wrong(format!("`{name}` at byte {at}: {error}")))
    }
}

/// The function names, as listed in errors.
const FUNCTIONS: &str = "abs, ceil, cos, exp, floor, ln, log10, max, mean, median, min, pow, round, sin, sqrt, sum, tan";

fn applied(name: &str, arguments: &[f64]) -> Result<f64, ToolError> {
    let value = match (name, arguments) {
        ("abs", [x]) => x.abs(),
        ("ceil", [x]) => x.ceil(),
        ("cos", [x]) => x.cos(),
        ("exp", [x]) => x.exp(),
        ("floor", [x]) => x.floor(),
        ("ln", [x]) => x.ln(),
        ("log10", [x]) => x.log10(),
        ("pow", [x, y]) => x.powf(*y),
        ("round", [x]) => x.round(),
        // More than 15 digits exceed the precision of an `f64`.
        ("round", [x, digits]) if (0.0..=15.0).contains(digits) => {
            let scale = 10_f64.powf(digits.floor());
            (x * scale).round() / scale
        }
        ("sin", [x]) => x.sin(),
        ("sqrt", [x]) => x.sqrt(),
        ("tan", [x]) => x.tan(),
        ("max", [first, rest @ ..]) => rest.iter().copied().fold(*first, f64::max),
        ("min", [first, rest @ ..]) => rest.iter().copied().fold(*first, f64::min),
        ("sum", all) => all.iter().sum(),
        ("mean", all @ [_, ..]) => mean(all),
        ("median", all @ [_, ..]) => median(all),
        _ if FUNCTIONS.split(", ").any(|known| known == name) => {
            return Err(wrong(format!(
                "it does not take {} arguments of these values",
                arguments.len()
            )));
        }
        _ => return Err(wrong(format!("there is no such function; there are {FUNCTIONS}"))),
    };
    match value.is_nan() {
        false => Ok(value),
        true => Err(wrong("it has no value for these arguments")),
    }
}

#[expect(clippy::cast_precision_loss, reason = "an expression has at most 4096 bytes")]
fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { mean(&sorted[middle - 1..=middle]) }
}

#[cfg(test)]
mod tests {
    use super::value_of;

    #[test]
    fn expressions_have_the_value_that_they_have_on_paper() {
        for (text, value) in [
            ("2 + 3 * 4", 14.0_f64),
            ("(2 + 3) * 4", 20.0),
            ("-2^2", -4.0),
            ("2^3^2", 512.0),
            ("2^-1", 0.5),
            ("7 % 4 - -1", 4.0),
            ("1.5e3 / 3", 500.0),
            ("round(2.345, 2)", 2.35),
            ("max(1, 2 * 3, -4) + sqrt(16)", 10.0),
            ("mean(1, 2, 6) + median(5, 1, 3, 2)", 5.5),
            ("floor(pi) + ceil(e) + sum()", 6.0),
        ] {
            assert_eq!(value_of(text).unwrap().to_bits(), value.to_bits(), "{text}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        for (text, problem) in [
            ("", "the expression ends where a number is expected"),
            ("2 +", "the expression ends where a number is expected"),
            ("2 3", "unexpected `3` at byte 2, expected an operator such as `+`"),
            ("2 + (3", "the expression ends without `)`"),
            ("2 + ä", "unexpected `ä` at byte 4, expected a number"),
            ("1.2.3", "`1.2.3` at byte 0 is not a number"),
            ("1 / 0", "the result is inf, which is not a number; check for a division by zero"),
            ("sqrt(-1)", "`sqrt` at byte 0: it has no value for these arguments"),
            ("pow(2)", "`pow` at byte 0: it does not take 1 arguments of these values"),
        ] {
            assert_eq!(value_of(text).unwrap_err().message(), problem, "{text}");
        }
        assert!(
            value_of("system(1)")
                .unwrap_err()
                .message()
                .starts_with("`system` at byte 0: there is no such function")
        );
        assert!(value_of("x").unwrap_err().message().starts_with("`x` at byte 0 is not known"));
    }

    #[test]
    fn work_and_stack_are_bounded() {
        assert!(
            value_of(&"(".repeat(4000)).unwrap_err().message().contains("nested more than 64 deep")
        );
        assert!(
            value_of(&"-".repeat(4000)).unwrap_err().message().contains("nested more than 64 deep")
        );
        assert!(
            value_of(&"1^".repeat(2000))
                .unwrap_err()
                .message()
                .contains("nested more than 64 deep")
        );
        assert!(value_of(&"1+".repeat(4000)).unwrap_err().message().contains("4096 is the most"));
    }
}
