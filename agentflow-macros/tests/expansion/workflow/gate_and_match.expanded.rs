/// Asks a person, and follows the answer.
#[allow(clippy::used_underscore_binding)]
async fn merge(change: Change) -> Result<String> {
    <merge as __private::WorkflowFn1>::run(__private::None, (change,)).await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct merge {}
const _: () = {
    #[allow(deprecated)]
    impl __private::WorkflowTypes for merge {
        type Ok = <Result<String> as __private::WorkflowReturn>::Ok;
        type Error = <Result<String> as __private::WorkflowReturn>::Error;
    }
    #[allow(deprecated)]
    impl merge {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(Change,), <merge as __private::WorkflowTypes>::Ok> {
            <merge as __private::WorkflowFn1>::workflow()
        }
    }
    impl __private::WorkflowFn1 for merge {
        #[allow(deprecated)]
        type A = Change;
        type Return = __private::Result<
            <merge as __private::WorkflowTypes>::Ok,
            <merge as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "merge";
        const INPUTS: [&'static str; 1usize] = ["change"];
        #[allow(deprecated)]
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(Change,), <merge as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(Change,), <merge as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        fn error_form() -> __private::ErrorForm<
            __private::Result<(), <merge as __private::WorkflowTypes>::Error>,
        > {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            (&&&__private::ReturnForm::<__private::Result<(), <merge as __private::WorkflowTypes>::Error>>::of_type())
                .agentflow_error()
        }
        #[allow(
            unused_braces,
            clippy::needless_question_mark,
            clippy::no_effect_underscore_binding,
            clippy::too_many_lines,
            clippy::used_underscore_binding,
            clippy::zero_prefixed_literal
        )]
        fn nodes(
            steps: &mut __private::Steps<'_, <merge as __private::WorkflowTypes>::Error>,
            (change,): (__private::Handle<Self::A>,),
        ) -> __private::Handle<<merge as __private::WorkflowTypes>::Ok> {
            #[allow(unused_imports)]
            use __private::{
                AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _,
                OfAnything as _, OfBorrow as _, OfOwned as _, OfStandard as _,
                OptionTried as _, OtherNamed as _, OtherOutput as _, OtherReceiver as _,
                OtherTried as _, PlainStep as _, UnawaitedValue as _,
            };
            type __AgentflowError = <merge as __private::WorkflowTypes>::Error;
            steps.describe("Asks a person, and follows the answer.");
            let approval = steps
                .gate::<_, _, __private::Approval, _>(
                    __private::Node::new("approval")
                        .line(::core::line!())
                        .code(1910724193713604131u64)
                        .timeout(__private::Duration::from_millis(604800000u64)),
                    (change,),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (change,) = values;
                        __private::Ok::<(__private::String, _), __AgentflowError>((__private::format!("merge {change}?"), change))
                    },
                );
            let outcome = {
                let router = steps
                    .route(
                        __private::Node::new("outcome")
                            .line(::core::line!())
                            .code(15886785706158556490u64)
                            .calls("match approval"),
                        &["Granted", "Denied"],
                        (approval,),
                        move |values| {
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (approval,) = values;
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::match_same_arms,
                                clippy::needless_bool
                            )]
                            let chosen: &'static str = match approval {
                                Approval::Granted { .. } => "Granted",
                                Approval::Denied { comment } => "Denied",
                            };
                            __private::Ok::<&'static str, __AgentflowError>(chosen)
                        },
                    );
                let arms = __private::arms::<_>();
                let arm = steps
                    .arm(
                        router,
                        "Granted",
                        |steps| {
                            steps
                                .step::<_, _, _, _>(
                                    __private::Node::new("merge_now")
                                        .line(::core::line!())
                                        .code(205200438002480737u64)
                                        .calls("merge_now")
                                        .direct()
                                        .text("merge_now(change)"),
                                    (change,),
                                    move |args| async move {
                                        let agentflow_call_0 = merge_now;
                                        #[allow(
                                            unused_variables,
                                            unused_mut,
                                            clippy::let_unit_value
                                        )]
                                        let (cx, (change,)) = args
                                            .calling([__private::function_id(&agentflow_call_0)])
                                            .await;
                                        __private::Ok::<_, __AgentflowError>(
                                            __private::TriedStep(agentflow_call_0(change).await)
                                                .failing::<__AgentflowError>()?,
                                        )
                                    },
                                )
                        },
                    );
                let arms = __private::Arms::arm(arms, arm);
                let arm = steps
                    .arm(
                        router,
                        "Denied",
                        |steps| {
                            steps
                                .step::<_, _, _, _>(
                                    __private::Node::new("comment_on")
                                        .line(::core::line!())
                                        .code(10169083517162593799u64)
                                        .calls("comment_on")
                                        .direct()
                                        .text("comment_on(change, comment)"),
                                    (change, approval),
                                    move |args| async move {
                                        let agentflow_call_0 = comment_on;
                                        #[allow(
                                            unused_variables,
                                            unused_mut,
                                            clippy::let_unit_value
                                        )]
                                        let (cx, (change, approval)) = args
                                            .calling([__private::function_id(&agentflow_call_0)])
                                            .await;
                                        #[allow(unused_variables, unused_mut)]
                                        #[allow(
                                            unreachable_patterns,
                                            clippy::single_match_else,
                                            clippy::match_wildcard_for_single_variants,
                                            clippy::manual_let_else,
                                            clippy::question_mark,
                                            clippy::match_same_arms
                                        )]
                                        let (comment,) = match approval {
                                            Approval::Denied { comment } => (comment,),
                                            _ => __private::not_this_arm(),
                                        };
                                        __private::Ok::<_, __AgentflowError>(
                                            __private::TriedStep(
                                                    agentflow_call_0(change, comment).await,
                                                )
                                                .failing::<__AgentflowError>()?,
                                        )
                                    },
                                )
                        },
                    );
                let arms = __private::Arms::arm(arms, arm);
                steps.join(router, arms)
            };
            steps
                .value::<_, _, _>(
                    __private::Node::new("output")
                        .line(::core::line!())
                        .code(9015494572107954799u64),
                    (outcome,),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (outcome,) = values;
                        #[allow(clippy::let_and_return)]
                        {
                            let ended: Result<String> = Ok(outcome);
                            ended
                        }
                    },
                )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        merge) }, item : || __private::Box::new(__private::LinkedWorkflow::new("merge",
        (__private::file!(), __private::line!()), < merge as __private::WorkflowFn1 >
        ::GRAPH)), }
    }
};
