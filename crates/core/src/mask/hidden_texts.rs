//! `SecretMasker`: the secrets of a client, which are masked in all messages of its server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use serde_json::{Map, Value};

use super::without;

/// Minimum number of bytes of a secret. Shorter strings would be found everywhere.
const SHORTEST: usize = 6;
/// Replaces a secret.
const MARK: &str = "***";
/// Fields that hold bytes as base64, by the names that protocols give them.
const BYTES: [&str; 4] = ["blob", "bytes", "data", "raw"];

/// Secrets, the longest first, so that a secret that contains another is masked whole.
#[derive(Clone, Default)]
#[allow(missing_debug_implementations, reason = "it holds secrets")]
pub struct SecretMasker(Vec<String>);

impl SecretMasker {
    /// Creates the set of these strings, without those of fewer than six bytes.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let mut texts: Vec<String> =
            texts.into_iter().filter(|text| text.len() >= SHORTEST).collect();
        // Equal secrets must be adjacent for `dedup`, so ties are sorted by text.
        texts.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        texts.dedup();
        Self(texts)
    }

    /// Returns the set with more strings.
    pub fn with(&self, more: impl IntoIterator<Item = String>) -> Self {
        Self::new(self.0.iter().cloned().chain(more))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text with each secret replaced, or `None` if it has none.
    pub fn masked(&self, text: &str) -> Option<String> {
        let mut masked = None::<String>;
        for hidden in &self.0 {
            masked = without(masked.as_deref().unwrap_or(text), hidden, MARK).or(masked);
        }
        masked
    }

    /// Masks secrets in all strings of a value, in names of fields, and in base64. Returns true if
    /// there were any.
    pub fn mask_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.masked(text) {
                Some(masked) => {
                    *text = masked;
                    true
                }
                None => false,
            },
            Value::Array(items) => {
                items.iter_mut().fold(false, |found, item| self.mask_value(item) | found)
            }
            Value::Object(fields) => self.mask_fields(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn mask_fields(&self, fields: &mut Map<String, Value>) -> bool {
        let mut found = false;
        for (name, value) in fields.iter_mut() {
            found |= self.mask_value(value);
            if let Value::String(text) = value
                && BYTES.contains(&name.as_str())
                && let Some(masked) = self.masked_base64(text)
            {
                *text = masked;
                found = true;
            }
        }
        let renamed: Vec<(String, String)> =
            fields.keys().filter_map(|name| Some((name.clone(), self.masked(name)?))).collect();
        for (name, masked) in renamed {
            if let Some(value) = fields.remove(&name) {
                fields.insert(masked, value);
                found = true;
            }
        }
        found
    }

    /// Masks secrets in base64. Returns `None` if the text is not base64 or has no secret.
    fn masked_base64(&self, text: &str) -> Option<String> {
        let mut bytes = STANDARD.decode(text).ok()?;
        let mut found = false;
        for hidden in &self.0 {
            let places: Vec<usize> = memmem::find_iter(&bytes, hidden).collect();
            // From the end, so that the earlier positions stay valid.
            for place in places.into_iter().rev() {
                bytes.splice(place..place + hidden.len(), MARK.bytes());
                found = true;
            }
        }
        found.then(|| STANDARD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::SecretMasker;

    #[test]
    fn a_secret_is_masked_in_every_text_of_a_value() {
        let hidden = SecretMasker::new(
            ["sk-12345", "Bearer sk-12345", "short", "a\"quoted\""].map(ToOwned::to_owned),
        );
        let inside = json!({"header": "Bearer sk-12345"}).to_string();
        let mut value = json!({
            "text": "your header was Bearer sk-12345, and short", "list": ["sk-12345", 7, null],
            "inner": inside, "sk-12345": true, "blob": STANDARD.encode("key=sk-12345;"), "data": "no base64: sk-12345",
            "quoted": "a\"quoted\"",
        });
        assert!(hidden.mask_value(&mut value));
        assert_eq!(
            value,
            json!({
                "text": "your header was ***, and short", "list": ["***", 7, null], "inner": "{\"header\":\"***\"}",
                "***": true, "blob": STANDARD.encode("key=***;"), "data": "no base64: ***", "quoted": "***",
            })
        );
        let mut none = json!({"text": "sk-1234", "blob": STANDARD.encode("sk-1234")});
        assert!(!hidden.mask_value(&mut none) && none["text"] == "sk-1234");
    }
}
