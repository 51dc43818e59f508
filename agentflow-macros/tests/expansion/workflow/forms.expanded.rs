/// The other forms.
#[allow(clippy::used_underscore_binding)]
async fn forms(draft: String) -> Result<String> {
    <forms as __private::WorkflowFn1>::run(__private::None, (draft,)).await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct forms {}
const _: () = {
    #[allow(deprecated)]
    impl __private::WorkflowTypes for forms {
        type Ok = <Result<String> as __private::WorkflowReturn>::Ok;
        type Error = <Result<String> as __private::WorkflowReturn>::Error;
    }
    #[allow(deprecated)]
    impl forms {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(String,), <forms as __private::WorkflowTypes>::Ok> {
            <forms as __private::WorkflowFn1>::workflow()
        }
    }
    impl __private::WorkflowFn1 for forms {
        #[allow(deprecated)]
        type A = String;
        type Return = __private::Result<
            <forms as __private::WorkflowTypes>::Ok,
            <forms as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "forms";
        const INPUTS: [&'static str; 1usize] = ["draft"];
        #[allow(deprecated)]
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(String,), <forms as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(String,), <forms as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        fn error_form() -> __private::ErrorForm<
            __private::Result<(), <forms as __private::WorkflowTypes>::Error>,
        > {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            (&&&__private::ReturnForm::<__private::Result<(), <forms as __private::WorkflowTypes>::Error>>::of_type())
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
            steps: &mut __private::Steps<'_, <forms as __private::WorkflowTypes>::Error>,
            (draft,): (__private::Handle<Self::A>,),
        ) -> __private::Handle<<forms as __private::WorkflowTypes>::Ok> {
            #[allow(unused_imports)]
            use __private::{
                AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _,
                OfAnything as _, OfBorrow as _, OfOwned as _, OfStandard as _,
                OptionTried as _, OtherNamed as _, OtherOutput as _, OtherReceiver as _,
                OtherTried as _, PlainStep as _, UnawaitedValue as _,
            };
            type __AgentflowError = <forms as __private::WorkflowTypes>::Error;
            steps.describe("The other forms.");
            let first = {
                let branches = __private::branches::<_>();
                let branch = steps
                    .branch::<_, _, _, _>(
                        "fast",
                        (draft,),
                        move |args| async move {
                            let agentflow_call_0 = fast;
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (cx, (draft,)) = args
                                .calling([__private::function_id(&agentflow_call_0)])
                                .await;
                            __private::Ok::<_, __AgentflowError>(
                                __private::FormStep(agentflow_call_0(draft).await)
                                    .failing::<__AgentflowError>()?,
                            )
                        },
                    );
                let branches = __private::Branches::branch(branches, branch);
                let branch = steps
                    .branch::<_, _, _, _>(
                        "good",
                        (draft,),
                        move |args| async move {
                            let agentflow_call_0 = good;
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (cx, (draft,)) = args
                                .calling([__private::function_id(&agentflow_call_0)])
                                .await;
                            __private::Ok::<_, __AgentflowError>(
                                __private::FormStep(agentflow_call_0(draft).await)
                                    .failing::<__AgentflowError>()?,
                            )
                        },
                    );
                let branches = __private::Branches::branch(branches, branch);
                steps
                    .race(
                        __private::Node::new("first")
                            .line(::core::line!())
                            .code(9567436354510922772u64),
                        branches,
                    )
            };
            let second = {
                let branches = __private::branches::<_>();
                let branch = steps
                    .branch::<_, _, _, _>(
                        "one",
                        (first,),
                        move |args| async move {
                            let agentflow_call_0 = one;
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (cx, (first,)) = args
                                .calling([__private::function_id(&agentflow_call_0)])
                                .await;
                            __private::Ok::<_, __AgentflowError>(
                                __private::FormStep(agentflow_call_0(first).await)
                                    .failing::<__AgentflowError>()?,
                            )
                        },
                    );
                let branches = __private::Branches::branch(branches, branch);
                let branch = steps
                    .branch::<_, _, _, _>(
                        "two",
                        (first,),
                        move |args| async move {
                            let agentflow_call_0 = two;
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (cx, (first,)) = args
                                .calling([__private::function_id(&agentflow_call_0)])
                                .await;
                            __private::Ok::<_, __AgentflowError>(
                                __private::FormStep(agentflow_call_0(first).await)
                                    .failing::<__AgentflowError>()?,
                            )
                        },
                    );
                let branches = __private::Branches::branch(branches, branch);
                steps
                    .fallback(
                        __private::Node::new("second")
                            .line(::core::line!())
                            .code(13350613463149498459u64),
                        branches,
                    )
            };
            let third = {
                let first = second;
                steps
                    .repeat(
                        __private::Node::new("third")
                            .line(::core::line!())
                            .code(9385224066670853067u64)
                            .calls("improve")
                            .direct()
                            .text("improve(text)"),
                        first,
                        (),
                        (5, |text| text.good),
                        move |args| async move {
                            let agentflow_call_0 = improve;
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (cx, (item, ())) = args
                                .calling([__private::function_id(&agentflow_call_0)])
                                .await;
                            let text = item;
                            __private::Ok::<_, __AgentflowError>(
                                __private::FormStep(agentflow_call_0(text).await)
                                    .failing::<__AgentflowError>()?,
                            )
                        },
                    )
            };
            let fourth = steps
                .step::<_, _, _, _>(
                    __private::Node::new("fourth")
                        .line(::core::line!())
                        .code(2450367340433245280u64)
                        .calls("check")
                        .timeout(__private::Duration::from_millis(30000u64))
                        .direct()
                        .text("check(third)"),
                    (third,),
                    move |args| async move {
                        let agentflow_call_0 = check;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (third,)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        __private::Ok::<_, __AgentflowError>(
                            __private::FormStep(agentflow_call_0(third).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            steps
                .value::<_, _, _>(
                    __private::Node::new("output")
                        .line(::core::line!())
                        .code(9901413573451006107u64),
                    (fourth,),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (fourth,) = values;
                        #[allow(clippy::let_and_return)]
                        {
                            let ended: Result<String> = Ok(fourth);
                            ended
                        }
                    },
                )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        forms) }, item : || __private::Box::new(__private::LinkedWorkflow::new("forms",
        (__private::file!(), __private::line!()), < forms as __private::WorkflowFn1 >
        ::GRAPH)), }
    }
};
