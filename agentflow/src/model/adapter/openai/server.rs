//! The server of both OpenAI formats, and how its models are brought to typed answers.

use crate::model::OutputMode;
use crate::model::adapter::http::{Provider, Server};

pub(in crate::model) static OPENAI: Provider = Provider {
    base_url: "https://api.openai.com/v1",
    base_url_variable: "OPENAI_BASE_URL",
    key_names: &["OPENAI_API_KEY"],
    key_header: None,
    token_names: &[],
    headers: &[],
};

/// How a server is brought to answer in a given shape, when the host does not say it.
///
/// Some servers other than OpenAI's keep the model to the schema from its first token on, so that it can call no tool;
/// there the answer is a call as well.
pub(in crate::model::adapter) fn output_mode(server: &Server, with_tools: bool) -> OutputMode {
    let host = server.url.host_str().unwrap_or_default();
    match !with_tools || server.official || host.ends_with(".openai.azure.com") {
        true => OutputMode::Native,
        false => OutputMode::Tool,
    }
}

#[cfg(test)]
mod tests {
    use super::{OPENAI, output_mode};
    use crate::model::OutputMode;
    use crate::model::adapter::http::ServerBuilder;

    #[test]
    fn a_typed_answer_beside_tools_is_native_only_where_that_is_known_to_work() {
        let of = |base: &str, tools| {
            let mut builder = ServerBuilder::new(&OPENAI);
            builder.base_url = Some(base.to_owned());
            output_mode(&builder.build().expect("usable"), tools)
        };
        assert_eq!(of("https://api.openai.com/v1", true), OutputMode::Native);
        assert_eq!(of("https://mine.openai.azure.com/openai/v1", true), OutputMode::Native);
        assert_eq!(of("http://h:1/v1", false), OutputMode::Native);
        assert_eq!(of("http://h:1/v1", true), OutputMode::Tool);
    }
}
