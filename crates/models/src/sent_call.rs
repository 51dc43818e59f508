//! Writes the tool calls of a conversation in a form that every server accepts.
//!
//! A model may call a tool that does not exist, or send arguments that are not JSON. The call and
//! its error stay in the conversation, and a strict server would then refuse every later request.
//! All adapters use these rules.

use std::borrow::Cow;

use agentflow_core::message::ToolCall;
use serde::Serializer;
use serde_json::value::RawValue;

/// Maximum length in bytes of a tool name that every provider accepts.
const LONGEST_NAME: usize = 64;

/// Returns a tool name as it is sent: 1 to 64 letters, digits, `_` and `-`. A valid name is
/// unchanged.
pub(super) fn tool_name(name: &str) -> Cow<'_, str> {
    identifier(name, LONGEST_NAME)
}

/// Converts a string to a name or an id with letters, digits, `_` and `-`, with 1 to `longest`
/// bytes. A valid string is unchanged. Different strings stay different, because a hash is
/// appended.
pub(super) fn identifier(text: &str, longest: usize) -> Cow<'_, str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=longest).contains(&text.len()) && text.chars().all(allowed) {
        return Cow::Borrowed(text);
    }
    // FNV-1a: short, and the same on every machine.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = format!("_{hash:016x}");
    let shown =
        text.chars().map(|c| if allowed(c) { c } else { '_' }).take(40.min(longest - hash.len()));
    Cow::Owned(shown.collect::<String>() + &hash)
}

/// Returns the arguments of a call as a JSON object. A valid object is unchanged, and an empty
/// string becomes `{}`. Any other text is wrapped in an object, as Anthropic's manual proposes, so
/// that the model sees its mistake.
pub(super) fn arguments(call: &ToolCall) -> Cow<'_, RawValue> {
    let text = if call.arguments.trim_ascii().is_empty() { "{}" } else { &call.arguments };
    match serde_json::from_str::<&RawValue>(text) {
        Ok(object) if object.get().starts_with('{') => Cow::Borrowed(object),
        _ => {
            let wrapped = serde_json::json!({ "INVALID_JSON": call.arguments }).to_string();
            Cow::Owned(RawValue::from_string(wrapped).expect("an object is JSON"))
        }
    }
}

/// Serializes [`arguments`] as a string. For `serialize_with`.
#[cfg(any(feature = "openai-chat", feature = "openai-responses"))]
pub(super) fn as_text<S: Serializer>(
    arguments: &RawValue,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(arguments.get())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_that_is_too_long_keeps_its_beginning() {
        let id = format!("chatcmpl-tool-{}", "0123456789abcdef".repeat(2));
        let short = identifier(&id, 40);
        assert!(short.len() == 40 && short.starts_with("chatcmpl-tool-"), "{short}");
        assert_eq!(identifier(&id, 46), id);
    }

    proptest! {
        #[test]
        fn every_name_is_sent_as_one_that_providers_accept(one in "\\PC{0,90}", other in "\\PC{0,90}") {
            let (sent, other_sent) = (tool_name(&one), tool_name(&other));
            prop_assert!((1..=LONGEST_NAME).contains(&sent.len()), "{sent}");
            prop_assert!(sent.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{sent}");
            prop_assert_eq!(one == other, sent == other_sent);
        }

        #[test]
        fn arguments_are_always_an_object(text in "[{}\\[\\]\",:a1 ]{0,12}") {
            let call = ToolCall::new("a", "f", &*text);
            let sent: serde_json::Value = serde_json::from_str(arguments(&call).get()).expect("JSON");
            prop_assert!(sent.is_object(), "{sent}");
        }
    }
}
