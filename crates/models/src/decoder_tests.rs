//! Property tests: the decoders of all adapters in this build read random bodies, without a server.

use agentflow_core::model::{ModelError, ModelResponse};
use proptest::prelude::*;

use crate::http::decode;

type Decode = fn(&[u8]) -> Result<ModelResponse, ModelError>;

fn decoders() -> Vec<Decode> {
    vec![
        #[cfg(feature = "anthropic")]
        decode::<crate::anthropic::Anthropic>,
        #[cfg(feature = "gemini")]
        decode::<crate::gemini::Gemini>,
        #[cfg(feature = "openai-chat")]
        decode::<crate::openai_chat::OpenAiChat>,
        #[cfg(feature = "openai-responses")]
        decode::<crate::openai_responses::OpenAiResponses>,
    ]
}

/// Fragments that the decoders look for, in random order and with random cuts.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "data: ",
        "\n",
        "\n\n",
        "event: message_start\n",
        "event: response.completed\n",
        "[DONE]",
        r#"{"type":"message_start","message":{"id":"1","content":[],"usage":{"input_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
        r#"{"type":"message_stop"}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"x","tool_calls":[{"index":7,"function":{"name":"f"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":-1}}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"},{"functionCall":{"name":"f"}}]}}]}"#,
        r#"{"candidates":[{"finishReason":"STOP"}]}"#,
        r#"{"type":"response.output_item.added","output_index":3,"item":{"type":"function_call"}}"#,
        r#"{"type":"response.completed","response":{"output":[{"type":"message","content":[{}]}]}}"#,
        r#"{"error":{"message":"no"}}"#,
    ]);
    prop_oneof![
        8 => known.prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

proptest! {
    #[test]
    fn no_body_makes_a_decoder_panic(pieces in prop::collection::vec(piece(), 0..24)) {
        for decode in decoders() {
            let _ = decode(&pieces.concat());
        }
    }
}

#[cfg(feature = "openai-chat")]
#[test]
fn a_whole_answer_is_distinguished_from_a_part_of_one() {
    let whole = concat!(
        r#"data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#,
        "\n\ndata: [DONE]\n\n"
    );
    assert!(decode::<crate::openai_chat::OpenAiChat>(whole.as_bytes()).is_ok());
    assert!(decode::<crate::openai_chat::OpenAiChat>(&whole.as_bytes()[..30]).is_err());
}
