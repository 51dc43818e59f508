//! Checks JSON text from untrusted sources strictly: exactly one value, no duplicate keys, no
//! rounded numbers.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Checks that a string is one JSON value without duplicate keys. JSON readers disagree about which
/// of two values with the same key counts.
///
/// # Errors
/// Returns the error of the parser, or an error that names the duplicate key.
pub fn check(text: &str) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    UniqueKeysVisitor.deserialize(&mut json)?;
    json.end()
}

/// Returns true if no object in a valid JSON text has a duplicate key. `false` means "unknown":
/// call [`check`] then. This function reads the bytes and creates no values.
pub fn surely_unique(text: &str) -> bool {
    let bytes = text.as_bytes();
    // The keys of all open objects, and for each open object the index of its first key.
    let (mut keys, mut objects) = (Vec::<&[u8]>::new(), Vec::new());
    let (mut last, mut depth, mut at): (&[u8], _, _) = (&[], 0, 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let begin = at;
                let Some(end) = end_of_string(bytes, begin) else { return false };
                (last, at) = (&bytes[begin..end], end + 1);
            }
            b':' => {
                let of_object = &keys[objects.last().copied().unwrap_or_default()..];
                // An escaped key can be spelled in several ways. For many keys, the hash set of
                // `check` is faster.
                if of_object.len() >= 16 || of_object.contains(&last) || last.contains(&b'\\') {
                    return false;
                }
                keys.push(last);
            }
            b'{' => {
                objects.push(keys.len());
                depth += 1;
            }
            b'}' => {
                keys.truncate(objects.pop().unwrap_or_default());
                depth -= 1;
            }
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        // `check` decides if the nesting is too deep.
        if depth > 100 {
            return false;
        }
    }
    true
}

/// Returns the position of the quote that ends a string, which starts at `begin`.
fn end_of_string(bytes: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        match bytes[at] {
            b'"' => return Some(at),
            _ => at += 2,
        }
    }
}

/// Returns the keys of a string that is a JSON object, after the same checks as [`check`]. Returns
/// `None` if the value is not an object.
///
/// # Errors
/// Same as [`check`].
pub fn keys(text: &str) -> Result<Option<Vec<Cow<'_, str>>>, serde_json::Error> {
    if !text.trim_ascii_start().starts_with('{') {
        return check(text).map(|()| None);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let keys = json.deserialize_map(UniqueKeys)?;
    json.end()?;
    Ok(Some(keys))
}

/// Returns the message of a JSON error without its line and column. These are meaningless to a
/// reader who does not see the text that was parsed.
pub fn message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&place).map(ToOwned::to_owned).unwrap_or(message)
}

/// Visits a value and checks only its keys.
struct UniqueKeysVisitor;

impl<'de> DeserializeSeed<'de> for UniqueKeysVisitor {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! scalars {
    ($($visit:ident $T:ty)*) => {
        $(fn $visit<E>(self, _: $T) -> Result<(), E> {
            Ok(())
        })*
    };
}

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    scalars!(visit_bool bool visit_i64 i64 visit_u64 u64 visit_f64 f64 visit_str &str);

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(UniqueKeysVisitor)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        UniqueKeys.visit_map(map).map(drop)
    }
}

/// Collects the keys of an object, and checks that they are unique.
struct UniqueKeys;

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Vec<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut keys: Vec<Cow<'de, str>> = Vec::new();
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key_seed(Key)? {
            // A few keys are compared linearly, which avoids copies.
            let twice = match keys.len() {
                0..16 => keys.contains(&key),
                16 => {
                    seen.extend(keys.iter().cloned());
                    !seen.insert(key.clone())
                }
                _ => !seen.insert(key.clone()),
            };
            if twice {
                return Err(serde::de::Error::custom(twice_message(&key)));
            }
            keys.push(key);
            map.next_value_seed(UniqueKeysVisitor)?;
        }
        Ok(keys)
    }
}

/// Returns the error message for a duplicate key.
pub fn twice_message(key: &str) -> String {
    format!("`{key}` is given twice; give it once")
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// Rewrites every integral number as an integer without an exponent or a fraction. JSON Schema
/// treats `2.0` and `1e3` as integers, but serde does not. Returns `None` if the text needs no
/// change. Numbers with a fraction are not changed.
pub fn with_integers(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let end = at
                    + bytes[at..]
                        .iter()
                        .position(|byte| !is_part(byte))
                        .unwrap_or(bytes.len() - at);
                if let Some(integer) = as_integer(&text[at..end]) {
                    out.push_str(&text[copied..at]);
                    out.push_str(&integer);
                    copied = end;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    (copied > 0).then(|| out + &text[copied..])
}

/// Returns the integer that is equal to a number with a fraction or an exponent. The result has at
/// most 39 digits, as many as the largest `u128`.
fn as_integer(number: &str) -> Option<String> {
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() == number.len() {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some("0".to_owned());
    }
    let cut = i64::try_from(digits.len() - significant.len()).ok()?;
    let zeros = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(cut)?;
    let zeros = usize::try_from(zeros).ok()?;
    let fits = zeros <= 39 && significant.len() + zeros <= 39;
    fits.then(|| format!("{sign}{significant}{}", "0".repeat(zeros)))
}

#[cfg(test)]
mod tests {
    use super::{check, keys, surely_unique, with_integers};

    #[test]
    fn one_text_and_each_key_once() {
        for text in [
            "{}",
            " [1, {\"a\": {\"a\": null}}, {\"a\": 1.5}] ",
            "\"x\"",
            "true",
            r#"{"a": {"b": 1}, "b": -2}"#,
        ] {
            check(text).unwrap();
        }
        for (text, message) in [
            (r#"{"a": 1, "a": 1}"#, "`a` is given twice; give it once at line 1 column 12"),
            (
                r#"[{"x": [{"a": 1, "b": 2, "\u0061": 3}]}]"#,
                "`a` is given twice; give it once at line 1 column 33",
            ),
            ("{} {}", "trailing characters at line 1 column 4"),
            ("{", "EOF while parsing an object at line 1 column 1"),
        ] {
            assert_eq!(check(text).unwrap_err().to_string(), message, "{text}");
        }
        let many: Vec<String> = (0..40).map(|at| format!("\"k{at}\": 0")).collect();
        check(&format!("{{{}}}", many.join(","))).unwrap();
        assert!(check(&format!("{{{}, \"k3\": 0}}", many.join(","))).is_err());
        assert!(check(&format!("{{{}, \"k39\": 0}}", many.join(","))).is_err());
    }

    #[test]
    fn what_is_surely_unique_has_no_key_twice() {
        for text in [
            "{}",
            r#"[1, {"a": {"a": null}, "b": [{"a": 1}, {"a": ":{\""}]}, {"a": 1.5}]"#,
            r#"{"a": "\\", "b": "a", "c": 1}"#,
        ] {
            assert!(check(text).is_ok() && surely_unique(text), "{text}");
        }
        let many: Vec<String> = (0..40).map(|at| format!("\"k{at}\": 0")).collect();
        let deep = format!("{}1{}", "[".repeat(110), "]".repeat(110));
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"[{"x": [{"a": 1, "b": {"a": 2}, "a": 3}]}]"#,
            r#"{"a": 1, "\u0061": 1}"#,
            r#"{"a": "\"#,
            &format!("{{{}, \"k3\": 0}}", many.join(",")),
            &deep,
        ] {
            assert!(!surely_unique(text), "{text}");
        }
    }

    #[test]
    fn the_keys_of_an_object() {
        assert_eq!(keys(" {\"a\": 1, \"\\u0062\": {\"c\": 2}}").unwrap().unwrap(), ["a", "b"]);
        assert_eq!(keys("[1]").unwrap(), None);
        assert!(keys("{\"a\": 1} {}").is_err());
        assert!(keys("[1] 2").is_err());
    }

    #[test]
    fn a_whole_number_is_an_integer_and_no_digit_is_lost() {
        for (number, integer) in [
            ("2.0", "2"),
            ("-2.50e1", "-25"),
            ("1e3", "1000"),
            ("120E-1", "12"),
            ("0.0", "0"),
            ("-0e9", "0"),
            ("9007199254740993.0", "9007199254740993"),
            ("9.007199254740993e15", "9007199254740993"),
            ("18446744073709551615.000", "18446744073709551615"),
        ] {
            assert_eq!(with_integers(number).as_deref(), Some(integer), "{number}");
        }
        for number in [
            "2",
            "-7",
            "0",
            "2.5",
            "9007199254740993.5",
            "4503599627370497.25",
            "1e-1",
            "1e300",
            "1e99999999999999999999",
        ] {
            assert_eq!(with_integers(number), None, "{number}");
        }
        assert_eq!(
            with_integers(r#"{"2.0": ["2.0\"3.0", 3.0, 4.5, 1e2], "a\\": 5.0}"#).as_deref(),
            Some(r#"{"2.0": ["2.0\"3.0", 3, 4.5, 100], "a\\": 5}"#)
        );
    }
}
