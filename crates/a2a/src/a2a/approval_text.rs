//! Parses an approval from a person's text.

use agentflow_core::run::Approval;
use serde_json::json;

/// Returns the approval that a text means: a word for yes or no, or an [`Approval`] as JSON. Case
/// and a full stop at the end do not matter. Returns `None` for other texts, so that an unclear
/// answer never approves a call.
pub(crate) fn approval_from_text(text: &str) -> Option<Approval> {
    let word = text.trim().trim_end_matches(['.', '!']).to_ascii_lowercase();
    let decision = match word.as_str() {
        "yes" | "y" | "true" | "approve" | "approved" | "granted" | "confirm" | "confirmed" => {
            "granted"
        }
        "no" | "n" | "false" | "deny" | "denied" | "reject" | "rejected" | "refused" => "denied",
        _ => return serde_json::from_str(text).ok(),
    };
    serde_json::from_value(json!({"decision": decision})).ok()
}

#[cfg(test)]
mod tests {
    use super::approval_from_text;

    #[test]
    fn an_approval_is_a_word_or_an_object() {
        for yes in ["yes", " Approved. ", "granted", r#"{"decision": "granted"}"#] {
            assert!(approval_from_text(yes).is_some_and(|approval| approval.is_granted()), "{yes}");
        }
        for no in ["no", "Rejected!", r#"{"decision": "denied", "reason": "too late"}"#] {
            assert!(approval_from_text(no).is_some_and(|approval| !approval.is_granted()), "{no}");
        }
        for unclear in ["", "yes, but later", "granted?", "{}", "null"] {
            assert!(approval_from_text(unclear).is_none(), "{unclear}");
        }
    }
}
