//! [`redact`]: removes secrets and personal data from events. `run/redaction.rs` contains the rules
//! for finding and masking them.

use super::Middleware;
pub use crate::run::{Redact, Redactor};

/// Creates a middleware that removes secrets and personal data from events and logs; see
/// [`Redact`].
///
/// ```
/// use agentflow::middleware::redact;
/// use agentflow::prelude::*;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().with(redact().secret("swordfish").emails()).build();
/// let model = ScriptedModel::new([Turn::text("Written to ada@example.org.")]);
/// let result = Agent::new(model).runtime(&runtime).run("The password is swordfish.").await?;
/// // The caller and the model receive the original texts, the events do not contain them.
/// assert_eq!(result.output(), "Written to ada@example.org.");
/// let events = agentflow::serde_json::to_string(&result.events()).unwrap();
/// assert!(!events.contains("swordfish") && !events.contains("ada@"));
/// assert!(events.contains("Written to [redacted]."));
/// # Ok(())
/// # }
/// ```
pub fn redact() -> Redact {
    Redact::with_known_keys()
}

impl Middleware for Redact {
    fn name(&self) -> &str {
        "redact"
    }

    fn sees_tools(&self) -> bool {
        false
    }

    fn redactor(&self) -> Option<Redactor> {
        Some(self.clone().into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Middleware, redact};

    #[test]
    fn what_is_taken_out_and_what_is_left() {
        let all = redact()
            .secret("a \"quoted\" secret")
            .emails()
            .cards()
            .social_security_numbers()
            .phone_numbers();
        let all = all.redactor().unwrap();
        for (text, expected) in [
            ("to ada.l+x@example.org, please.", "to [redacted], please."),
            ("a@b is no address", "a@b is no address"),
            ("card 4111 1111 1111 1111!", "card [redacted]!"),
            ("number 4111 1111 1111 1112", "number 4111 1111 1111 1112"),
            ("ssn 123-45-6789.", "ssn [redacted]."),
            ("call +49 (30) 1234567 now", "call [redacted] now"),
            ("1234567 items", "1234567 items"),
            ("key sk-abcdefghijklmnop1234, end", "key [redacted], end"),
            ("task-abcdefghijklmnop1234", "task-abcdefghijklmnop1234"),
            ("{\"k\":\"a \\\"quoted\\\" secret\"}", "{\"k\":\"[redacted]\"}"),
            // JSON inside of a string stays JSON.
            ("{\"n\":4111111111111111,\"m\":1.5}", "{\"n\":\"[redacted]\",\"m\":1.5}"),
            ("[4.111111111111111e15, 4111111111111111.0]", "[\"[redacted]\", \"[redacted]\"]"),
            ("[1763766000000, 17637660000000000, 12]", "[1763766000000, 17637660000000000, 12]"),
            ("{\"to\":\"ada\\u0040example.org\"}", "{\"to\":\"[redacted]\"}"),
            ("{\"ada@example.org\": {}}", "{\"[redacted]\": {}}"),
            ("\"sk-abcdefghijklmnop\\u0031234\"", "\"[redacted]\""),
            ("cut off: {\"k\":\"a \\\\\\\"quoted\\\\\\\" secret", "cut off: {\"k\":\"[redacted]"),
        ] {
            assert_eq!(all.text(text), expected);
        }
    }

    #[test]
    fn it_looks_into_json_however_deep() {
        let all = redact()
            .secret("pass-word \"x\"")
            .secret("987654321")
            .emails()
            .cards()
            .redactor()
            .unwrap();
        let mut value = serde_json::json!({"a": "pass-word \"x\"", "b": [987_654_321, 4_111_111_111_111_111_u64, 7],
            "c": "Write to ada@example.org, 4111 1111 1111 1111."});
        for depth in 0..6 {
            let text = value.to_string();
            let without = all.text(&text);
            // Read back as deep as it was written.
            let mut read: serde_json::Value =
                serde_json::from_str(&without).expect("it stays JSON");
            for _ in 0..depth {
                let text = read
                    .as_array()
                    .and_then(|list| list[0].as_str())
                    .expect("a text in a list")
                    .to_owned();
                read = serde_json::from_str(&text).expect("it stays JSON");
            }
            let expected = serde_json::json!({"a": "[redacted]", "b": ["[redacted]", "[redacted]", 7],
                "c": "Write to [redacted], [redacted]."});
            assert_eq!(read, expected, "{depth} deep");
            value = serde_json::json!([text]);
        }
    }
}
