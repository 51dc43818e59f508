/// You are a release manager at {app:company}.
/// Judge the risk of {change.title}.
#[allow(clippy::missing_errors_doc, clippy::needless_pass_by_value)]
pub async fn judge(cx: &Context, change: Change, limit: u32) -> Result<Risk> {
    <Result<Risk> as __private::AgentReturn>::run(
            <judge>::agent(change, limit),
            __private::Some(<Context as __private::AgentContext>::context(cx)),
        )
        .await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
pub struct judge {}
#[allow(clippy::needless_update)]
const _: () = {
    static __AGENTFLOW_AGENT: __private::AgentDefinition = __private::agent_definition(
        "judge",
        "You are a release manager at {app:company}.\nJudge the risk of {change.title}.",
        (__private::file!(), __private::line!()),
        __private::AgentOptions {
            tools: || __private::linked_tools([
                {
                    #[allow(unused_imports, clippy::wildcard_imports)]
                    use __private::plain::*;
                    let function = &incidents;
                    {
                        #[allow(unused_macros)]
                        macro_rules! incidents {
                            () => {};
                        }
                        #[allow(unused_imports)]
                        use incidents as PlainFunction;
                        <_ as __private::FunctionOf<PlainFunction>>::tool(function)
                    }
                },
                {
                    #[allow(unused_imports, clippy::wildcard_imports)]
                    use __private::plain::*;
                    {
                        #[allow(unused_imports)]
                        use orders::find as PlainFunction;
                        <PlainFunction as __private::PathTool>::tool()
                    }
                },
            ]),
            temperature: __private::Some(0.2),
            max_steps: __private::Some(5),
            answering: |agent| {
                #[allow(unused_imports)]
                use __private::TextAnswerFallback as _;
                __private::Answers::<Result<Risk>>::answering(agent)
            },
            parameters: || {
                #[allow(unused_imports)]
                use __private::UndecodableParameter as _;
                __private::agent_parameters([
                    __private::AgentParameter::new::<Change>("change", __private::ParameterProbe::<Change>::READ),
                    __private::AgentParameter::new::<u32>("limit", __private::ParameterProbe::<u32>::READ),
                ])
            },
            asking: |arguments| {
                #[allow(unused_imports)]
                use __private::TextAnswerFallback as _;
                __private::Answers::<Result<Risk>>::erased(
                    <judge>::agent(
                        __private::AgentArguments::take(arguments, 0usize)?,
                        __private::AgentArguments::take(arguments, 1usize)?,
                    ),
                )
            },
            ..__private::AgentOptions::DEFAULT
        },
    );
    #[allow(deprecated)]
    impl judge {
        /// What this agent is: its name, its instruction, its tools.
        #[allow(dead_code)]
        pub fn definition() -> &'static __private::AgentDefinition {
            &__AGENTFLOW_AGENT
        }
        /// The agent that a call with these arguments runs, to be run with other options: `()` asks what the
        /// call asks.
        #[allow(dead_code, clippy::needless_pass_by_value, clippy::too_many_arguments)]
        pub fn agent(
            change: Change,
            limit: u32,
        ) -> <Result<Risk> as __private::AgentReturn>::Agent {
            let value0 = __private::AgentParam::json(&change.title);
            <Result<Risk> as __private::AgentReturn>::agent(
                __private::AgentCall::new(<judge>::definition())
                    .message()
                    .text("You are a release manager at ")
                    .app("company", false)
                    .text(".\nJudge the risk of ")
                    .value("change.title", &value0)
                    .text(".")
                    .argument("limit", &<u32 as __private::AgentParam>::json(&limit)),
            )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        judge) }, item : || { #[allow(deprecated)] __private::Box::new(< judge >
        ::definition()) }, }
    }
};
