//! Splits the text of an expression into tokens with positions. It does not know the grammar.

use super::expression_codes as codes;
use crate::diagnostic::{Code, Diagnostic};

/// Maximum size of an expression in bytes.
const LONGEST: usize = 16 << 10;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    /// Without a sign: `i64::MIN` needs one value more than `i64::MAX`.
    Int(u64),
    Double(f64),
    Text(String),
    /// An operator, a bracket or a comma.
    Sign(&'static str),
    End,
}

/// Longer signs come first, because the first match is taken.
const SIGNS: [&str; 26] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")", "[", "]",
    ".", ",", "?", ":", "{", "}", "=", "&",
];

/// Returns the tokens with their positions. The last one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Diagnostic> {
    if text.len() > LONGEST {
        let found = Diagnostic::new(codes::TOO_LONG).number("most", LONGEST);
        return Err(found.number("size", text.len()).at(0..0));
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        if letter.is_whitespace() {
            at += letter.len_utf8();
            continue;
        }
        let (token, length) = token(&text[at..], letter, at)?;
        tokens.push((at, token));
        at += length;
    }
    tokens.push((text.len(), Token::End));
    Ok(tokens)
}

/// Returns the token at the start of `rest`, whose first character is `letter`, and its length in
/// bytes. `at` is its position in the expression.
fn token(rest: &str, letter: char, at: usize) -> Result<(Token, usize), Diagnostic> {
    match letter {
        // Strings are read before names, because a raw string starts with the letter `r`.
        _ if is_text(rest) => {
            let (value, length) = quoted(rest, at)?;
            Ok((Token::Text(value), length))
        }
        letter if letter.is_ascii_digit() => number(rest, at),
        letter if letter.is_alphabetic() || letter == '_' => {
            let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
            let length = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
            Ok((Token::Name(rest[..length].to_owned()), length))
        }
        _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => Ok((Token::Sign(sign), sign.len())),
            None => Err(Diagnostic::new(codes::UNKNOWN_SIGN).name("sign", letter).at_byte(at)),
        },
    }
}

/// Returns the end of the token at a position, also of an invalid one. Returns the position itself at
/// the end of the text.
pub(super) fn end_of_token(text: &str, at: usize) -> usize {
    let Some(rest) = text.get(at..) else { return at };
    let Some(letter) = rest.chars().next() else { return at };
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    match token(rest, letter, at) {
        Ok((_, length)) => at + length,
        // The text in quotes does not end.
        Err(_) if is_text(rest) => text.len(),
        Err(_) if is_name(letter) => {
            at + rest.find(|letter| !is_name(letter)).unwrap_or(rest.len())
        }
        Err(_) => at + letter.len_utf8(),
    }
}

/// Returns true if a quoted text starts here, with or without the prefix `r`.
fn is_text(rest: &str) -> bool {
    rest.strip_prefix(['r', 'R']).unwrap_or(rest).starts_with(['"', '\''])
}

/// Returns the value of a quoted text, and its length in bytes in the source. `rest` may start with
/// the `r` of a raw string. A string that starts with three quotes ends with three.
fn quoted(rest: &str, at: usize) -> Result<(String, usize), Diagnostic> {
    let is_raw = rest.starts_with(['r', 'R']);
    let begin = usize::from(is_raw);
    let quote = if rest[begin..].starts_with('"') { "\"" } else { "'" };
    let quote = if rest[begin..].starts_with(&quote.repeat(3)) {
        quote.repeat(3)
    } else {
        quote.to_owned()
    };
    let mut value = String::new();
    let mut place = begin + quote.len();
    while let Some(letter) = rest[place..].chars().next() {
        if rest[place..].starts_with(&quote) {
            return Ok((value, place + quote.len()));
        }
        // Only a string in triple quotes may contain line feeds.
        if letter == '\n' && quote.len() == 1 {
            break;
        }
        place += match letter {
            '\\' if !is_raw => {
                let (escaped, length) = escape(&rest[place + 1..], at + place)?;
                value.push(escaped);
                1 + length
            }
            letter => {
                value.push(letter);
                letter.len_utf8()
            }
        };
    }
    Err(Diagnostic::new(codes::OPEN_TEXT).absent("quote", quote).at_byte(at))
}

/// Returns the character of an escape sequence, and its length in bytes without the backslash.
fn escape(rest: &str, at: usize) -> Result<(char, usize), Diagnostic> {
    let wrong = || Diagnostic::new(codes::UNKNOWN_ESCAPE).at_byte(at);
    let number = |digits: &str, base, length| {
        let number = u32::from_str_radix(digits, base).ok().and_then(char::from_u32);
        number
            .filter(|_| digits.chars().all(|digit| digit.is_digit(base)))
            .map(|letter| (letter, length))
            .ok_or_else(wrong)
    };
    let digits = |from: usize, count: usize| rest.get(from..from + count).unwrap_or("-");
    let letter = rest.chars().next().ok_or_else(wrong)?;
    match letter {
        'n' => Ok(('\n', 1)),
        'r' => Ok(('\r', 1)),
        't' => Ok(('\t', 1)),
        'a' => Ok(('\u{7}', 1)),
        'b' => Ok(('\u{8}', 1)),
        'f' => Ok(('\u{c}', 1)),
        'v' => Ok(('\u{b}', 1)),
        '\\' | '\'' | '"' | '`' | '?' => Ok((letter, 1)),
        'x' | 'X' => number(digits(1, 2), 16, 3),
        'u' => number(digits(1, 4), 16, 5),
        'U' => number(digits(1, 8), 16, 9),
        // CEL's octal escapes have three digits, up to `\377`.
        '0'..='3' => number(digits(0, 3), 8, 3),
        _ => Err(wrong()),
    }
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), Diagnostic> {
    let wrong =
        |code: Code, written: &str| Err(Diagnostic::new(code).name("number", written).at_byte(at));
    if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let end = hex
            .find(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
            .unwrap_or(hex.len());
        return match u64::from_str_radix(&hex[..end], 16) {
            Ok(value) => Ok((Token::Int(value), 2 + end)),
            Err(_) => wrong(codes::NOT_HEXADECIMAL, &rest[..2 + end]),
        };
    }
    let digits = |from: usize| {
        rest[from..]
            .find(|letter: char| !letter.is_ascii_digit())
            .map_or(rest.len(), |end| from + end)
    };
    let mut end = digits(0);
    let mut whole = true;
    // A dot without a digit is not a part of the number. It selects a field.
    if rest[end..].starts_with('.')
        && rest[end + 1..].starts_with(|letter: char| letter.is_ascii_digit())
    {
        (end, whole) = (digits(end + 1), false);
    }
    if rest[end..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
        if rest[end + 1 + sign..].starts_with(|letter: char| letter.is_ascii_digit()) {
            (end, whole) = (digits(end + 1 + sign), false);
        }
    }
    let written = &rest[..end];
    if rest[end..].starts_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
        return wrong(codes::NUMBER_WITH_LETTERS, written);
    }
    match whole {
        true => match written.parse() {
            Ok(value) => Ok((Token::Int(value), end)),
            Err(_) => wrong(codes::INTEGER_TOO_LARGE, written),
        },
        false => match written.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok((Token::Double(value), end)),
            _ => wrong(codes::DOUBLE_TOO_LARGE, written),
        },
    }
}
