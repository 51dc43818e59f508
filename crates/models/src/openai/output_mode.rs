//! How the models of a server of either OpenAI format are brought to typed answers.

use agentflow_core::model::OutputMode;

use crate::http::Server;

/// How a server is brought to answer in a given shape, when the host has not set it.
///
/// Some servers other than OpenAI's keep the model to the schema from its first token on, so that it can call no tool;
/// there the answer is a call as well.
pub(crate) fn output_mode(server: &Server, with_tools: bool) -> OutputMode {
    let host = server.url.host_str().unwrap_or_default();
    let native = !with_tools || server.official || host.ends_with(".openai.azure.com");
    match native && server.takes_schema() {
        true => OutputMode::Native,
        false => OutputMode::Tool,
    }
}

#[cfg(test)]
mod tests {
    use agentflow_core::__private::adapters::{OPENAI_CHAT, ServerSettings};
    use agentflow_core::model::OutputMode;

    use super::output_mode;
    use crate::http::Server;

    #[test]
    fn a_typed_answer_beside_tools_is_native_only_where_that_is_known_to_work() {
        let of = |base: &str, tools| {
            let mut builder = ServerSettings::new(&OPENAI_CHAT);
            builder.base_url = Some(base.to_owned());
            output_mode(&Server::new(builder).expect("usable"), tools)
        };
        assert_eq!(of("https://api.openai.com/v1", true), OutputMode::Native);
        assert_eq!(of("https://mine.openai.azure.com/openai/v1", true), OutputMode::Native);
        assert_eq!(of("http://h:1/v1", false), OutputMode::Native);
        assert_eq!(of("http://h:1/v1", true), OutputMode::Tool);
    }
}
