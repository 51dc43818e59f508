//! Parses durations such as `"5s"`: a whole number and a unit, without fractions or sums.

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Returns the duration in milliseconds, or an error message.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|(_, factor)| *factor);
    match (number.parse::<u64>(), factor) {
        (Ok(0), Some(_)) => {
            Err("a duration of zero leaves no time; write a longer one, or remove the option for no limit".to_owned())
        }
        (Ok(number), Some(factor)) => {
            number.checked_mul(factor).ok_or_else(|| format!("the duration `{text}` is too long; write a shorter one"))
        }
        _ => Err(format!(
            "`{text}` is not a duration; write a whole number and a unit (ms, s, m, h or d), such as \"500ms\" or \"5s\""
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn a_number_and_a_unit() {
        assert_eq!(milliseconds("500ms"), Ok(500));
        assert_eq!(milliseconds("5s"), Ok(5_000));
        assert_eq!(milliseconds("7 d"), Ok(604_800_000));
        for wrong in [
            "",
            "5",
            "s",
            "5 parsecs",
            "-5s",
            "1.5s",
            "0s",
            "99999999999999999999s",
            "213503982335d",
            "5é",
        ] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
    }
}
