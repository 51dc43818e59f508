//! Selects the output mode for servers of either OpenAI format.

use agentflow_core::model::OutputMode;

use crate::http::Server;

/// Returns the default output mode for a server.
///
/// Some servers other than OpenAI's apply the schema from the first token, so the model cannot call
/// a tool. For such a server, a request with tools returns the answer as a tool call too.
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
