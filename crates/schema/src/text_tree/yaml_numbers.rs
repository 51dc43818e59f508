//! Decides which YAML scalars are JSON numbers, except for integers of 64 bits.

use serde_json::Number;

/// Parses an integer of more than 64 bits, if the nearest double has the same significant digits,
/// such as -9223372036854776000.
pub(super) fn large_whole(text: &str) -> Option<Number> {
    let number: f64 = text.parse().ok()?;
    let shortest = format!("{number:e}");
    let (said, _) = shortest.split_once('e')?;
    let digits = |text: &str| text.replace(['+', '-', '.'], "").trim_matches('0').to_owned();
    Number::from_f64(number).filter(|_| digits(said) == digits(text))
}

/// Returns true if a string is a number with a fraction or an exponent.
pub(super) fn is_decimal(text: &str) -> bool {
    let (base, exponent) = match text.split_once(['e', 'E']) {
        Some((base, exponent)) => {
            (base, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
        }
        None => (text, None),
    };
    let (whole, part) = base.split_once('.').unwrap_or((base, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let some = !(whole.is_empty() && part.is_empty());
    some && all_digits(whole)
        && all_digits(part)
        && exponent.is_none_or(|digits| !digits.is_empty() && all_digits(digits))
}

#[cfg(test)]
mod tests {
    use super::large_whole;

    #[test]
    fn a_large_number_is_one_whose_digits_stay() {
        for (text, number) in [
            ("-9223372036854776000", Some(-9_223_372_036_854_776_000.0)),
            ("18446744073709552000", Some(18_446_744_073_709_552_000.0)),
            ("+1000000000000000000000", Some(1e21)),
            ("18446744073709551617", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(large_whole(text).and_then(|number| number.as_f64()), number, "{text}");
        }
        assert!(
            large_whole(&"9".repeat(400)).is_none(),
            "JSON has no number beyond its largest one"
        );
    }
}
