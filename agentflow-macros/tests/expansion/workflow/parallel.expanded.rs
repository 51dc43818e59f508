/// Two steps that read the same output, and one that reads both.
#[allow(clippy::used_underscore_binding)]
async fn review(cx: &Context, change: Change) -> Result<Verdict> {
    <review as __private::WorkflowFn1>::run(
            __private::Some(<Context as __private::WorkflowContext>::context(cx)),
            (change,),
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
struct review {}
const _: () = {
    #[allow(deprecated)]
    impl __private::WorkflowTypes for review {
        type Ok = <Result<Verdict> as __private::WorkflowReturn>::Ok;
        type Error = <Result<Verdict> as __private::WorkflowReturn>::Error;
    }
    #[allow(deprecated)]
    impl review {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(Change,), <review as __private::WorkflowTypes>::Ok> {
            <review as __private::WorkflowFn1>::workflow()
        }
    }
    impl __private::WorkflowFn1 for review {
        #[allow(deprecated)]
        type A = Change;
        type Return = __private::Result<
            <review as __private::WorkflowTypes>::Ok,
            <review as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "review";
        const INPUTS: [&'static str; 1usize] = ["change"];
        #[allow(deprecated)]
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(Change,), <review as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(Change,), <review as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        fn error_form() -> __private::ErrorForm<
            __private::Result<(), <review as __private::WorkflowTypes>::Error>,
        > {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            (&&&__private::ReturnForm::<__private::Result<(), <review as __private::WorkflowTypes>::Error>>::of_type())
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
            steps: &mut __private::Steps<'_, <review as __private::WorkflowTypes>::Error>,
            (change,): (__private::Handle<Self::A>,),
        ) -> __private::Handle<<review as __private::WorkflowTypes>::Ok> {
            #[allow(unused_imports)]
            use __private::{
                AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _,
                OfAnything as _, OfBorrow as _, OfOwned as _, OfStandard as _,
                OptionTried as _, OtherNamed as _, OtherOutput as _, OtherReceiver as _,
                OtherTried as _, PlainStep as _, UnawaitedValue as _,
            };
            type __AgentflowError = <review as __private::WorkflowTypes>::Error;
            steps
                .describe(
                    "Two steps that read the same output, and one that reads both.",
                );
            steps.concurrency(4);
            steps.stop_policy(__private::StopPolicy::BestEffort);
            let bound_2 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("diff")
                        .line(::core::line!())
                        .code(10219000396749237508u64)
                        .calls("load")
                        .direct()
                        .text("load(cx, change)"),
                    (change,),
                    move |args| async move {
                        let agentflow_call_0 = load;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (change,)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        #[allow(unused_variables)]
                        let cx = &cx;
                        __private::Ok::<_, __AgentflowError>(
                            __private::TriedStep(agentflow_call_0(cx, change).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            let diff = bound_2;
            let bound_3 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("lint")
                        .line(::core::line!())
                        .code(13893244619943395331u64)
                        .calls("run_linter")
                        .retry(3)
                        .timeout(__private::Duration::from_millis(30000u64))
                        .direct()
                        .text("run_linter(diff)"),
                    (diff,),
                    move |args| async move {
                        let agentflow_call_0 = run_linter;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (diff,)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        __private::Ok::<_, __AgentflowError>(
                            __private::TriedStep(agentflow_call_0(diff).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            let lint = bound_3;
            let output_4 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("title_body")
                        .line(::core::line!())
                        .code(5188007297336834200u64)
                        .calls("summarize")
                        .direct()
                        .text("summarize(cx, diff)"),
                    (diff,),
                    move |args| async move {
                        let agentflow_call_0 = summarize;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (diff,)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        #[allow(unused_variables)]
                        let cx = &cx;
                        __private::Ok::<_, __AgentflowError>(
                            __private::TriedStep(agentflow_call_0(cx, diff).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            let last: __private::Handle<<Result<Verdict> as __private::WorkflowReturn>::Ok> = steps
                .step::<_, _, _, _>(
                    __private::Node::new("judge")
                        .line(::core::line!())
                        .code(14436633705117981690u64)
                        .calls("judge")
                        .direct()
                        .text("judge(cx, lint, title, body)"),
                    (lint, output_4),
                    move |args| async move {
                        let agentflow_call_0 = judge;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (lint, output_4)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        #[allow(unused_variables)]
                        let cx = &cx;
                        #[allow(unused_variables, unused_mut)]
                        let (title, body) = output_4;
                        #[allow(clippy::let_and_return)]
                        {
                            let ended: Result<Verdict> = agentflow_call_0(
                                    cx,
                                    lint,
                                    title,
                                    body,
                                )
                                .await;
                            ended
                        }
                    },
                );
            __private::Output(&bound_2).owned();
            __private::Output(&bound_3).owned();
            __private::Output(&output_4).owned();
            last
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        review) }, item : || __private::Box::new(__private::LinkedWorkflow::new("review",
        (__private::file!(), __private::line!()), < review as __private::WorkflowFn1 >
        ::GRAPH)), }
    }
};
