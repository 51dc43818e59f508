/// An `if` in an arm of a `match`, with steps in both.
#[allow(clippy::used_underscore_binding)]
async fn answer(question: Question) -> Result<String> {
    <answer as __private::WorkflowFn1>::run(__private::None, (question,)).await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct answer {}
const _: () = {
    #[allow(deprecated)]
    impl __private::WorkflowTypes for answer {
        type Ok = <Result<String> as __private::WorkflowReturn>::Ok;
        type Error = <Result<String> as __private::WorkflowReturn>::Error;
    }
    #[allow(deprecated)]
    impl answer {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(Question,), <answer as __private::WorkflowTypes>::Ok> {
            <answer as __private::WorkflowFn1>::workflow()
        }
    }
    impl __private::WorkflowFn1 for answer {
        #[allow(deprecated)]
        type A = Question;
        type Return = __private::Result<
            <answer as __private::WorkflowTypes>::Ok,
            <answer as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "answer";
        const INPUTS: [&'static str; 1usize] = ["question"];
        #[allow(deprecated)]
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(Question,), <answer as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(Question,), <answer as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        fn error_form() -> __private::ErrorForm<
            __private::Result<(), <answer as __private::WorkflowTypes>::Error>,
        > {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            (&&&__private::ReturnForm::<__private::Result<(), <answer as __private::WorkflowTypes>::Error>>::of_type())
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
            steps: &mut __private::Steps<'_, <answer as __private::WorkflowTypes>::Error>,
            (question,): (__private::Handle<Self::A>,),
        ) -> __private::Handle<<answer as __private::WorkflowTypes>::Ok> {
            #[allow(unused_imports)]
            use __private::{
                AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _,
                OfAnything as _, OfBorrow as _, OfOwned as _, OfStandard as _,
                OptionTried as _, OtherNamed as _, OtherOutput as _, OtherReceiver as _,
                OtherTried as _, PlainStep as _, UnawaitedValue as _,
            };
            type __AgentflowError = <answer as __private::WorkflowTypes>::Error;
            steps.describe("An `if` in an arm of a `match`, with steps in both.");
            let bound_1 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("kind")
                        .line(::core::line!())
                        .code(8931517412244237882u64)
                        .calls("classify")
                        .direct()
                        .text("classify(question)"),
                    (question,),
                    move |args| async move {
                        let agentflow_call_0 = classify;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (question,)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        __private::Ok::<_, __AgentflowError>(
                            __private::TriedStep(agentflow_call_0(question).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            let kind = bound_1;
            let last: __private::Handle<<Result<String> as __private::WorkflowReturn>::Ok> = {
                let router = steps
                    .route(
                        __private::Node::new("match")
                            .line(::core::line!())
                            .code(10495876254623926054u64)
                            .calls("match kind"),
                        &["Order", "Other"],
                        (kind,),
                        move |values| {
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (kind,) = values;
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::match_same_arms,
                                clippy::needless_bool
                            )]
                            let chosen: &'static str = match kind {
                                Kind::Order(number) => "Order",
                                Kind::Other => "Other",
                            };
                            __private::Ok::<&'static str, __AgentflowError>(chosen)
                        },
                    );
                let arms = __private::arms::<_>();
                let arm = steps
                    .arm(
                        router,
                        "Order",
                        |steps| {
                            let bound_3 = steps
                                .step::<_, _, _, _>(
                                    __private::Node::new("order")
                                        .line(::core::line!())
                                        .code(5142150653309594328u64)
                                        .calls("find_order")
                                        .direct()
                                        .text("find_order(number)"),
                                    (kind,),
                                    move |args| async move {
                                        let agentflow_call_0 = find_order;
                                        #[allow(
                                            unused_variables,
                                            unused_mut,
                                            clippy::let_unit_value
                                        )]
                                        let (cx, (kind,)) = args
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
                                        let (number,) = match kind {
                                            Kind::Order(number) => (number,),
                                            _ => __private::not_this_arm(),
                                        };
                                        __private::Ok::<_, __AgentflowError>(
                                            __private::TriedStep(agentflow_call_0(number).await)
                                                .failing::<__AgentflowError>()?,
                                        )
                                    },
                                );
                            let order = bound_3;
                            let last = {
                                let router = steps
                                    .route(
                                        __private::Node::new("if")
                                            .line(::core::line!())
                                            .code(15095646660180452354u64)
                                            .calls("if order.open"),
                                        &["then", "else"],
                                        (order,),
                                        move |values| {
                                            #[allow(
                                                unused_variables,
                                                unused_mut,
                                                clippy::let_unit_value
                                            )]
                                            let (order,) = values;
                                            #[allow(
                                                unused_variables,
                                                unused_mut,
                                                clippy::match_same_arms,
                                                clippy::needless_bool
                                            )]
                                            let chosen: &'static str = if order.open {
                                                "then"
                                            } else {
                                                "else"
                                            };
                                            __private::Ok::<&'static str, __AgentflowError>(chosen)
                                        },
                                    );
                                let arms = __private::arms::<_>();
                                let arm = steps
                                    .arm(
                                        router,
                                        "then",
                                        |steps| {
                                            steps
                                                .step::<_, _, _, _>(
                                                    __private::Node::new("track")
                                                        .line(::core::line!())
                                                        .code(9261704774780294710u64)
                                                        .calls("track")
                                                        .direct()
                                                        .text("track(order)"),
                                                    (order,),
                                                    move |args| async move {
                                                        let agentflow_call_0 = track;
                                                        #[allow(
                                                            unused_variables,
                                                            unused_mut,
                                                            clippy::let_unit_value
                                                        )]
                                                        let (cx, (order,)) = args
                                                            .calling([__private::function_id(&agentflow_call_0)])
                                                            .await;
                                                        #[allow(clippy::let_and_return)]
                                                        {
                                                            let ended: Result<String> = agentflow_call_0(order).await;
                                                            ended
                                                        }
                                                    },
                                                )
                                        },
                                    );
                                let arms = __private::Arms::arm(arms, arm);
                                let arm = steps
                                    .arm(
                                        router,
                                        "else",
                                        |steps| {
                                            steps
                                                .step::<_, _, _, _>(
                                                    __private::Node::new("archive")
                                                        .line(::core::line!())
                                                        .code(2004402492650372721u64)
                                                        .calls("archive")
                                                        .direct()
                                                        .text("archive(order)"),
                                                    (order,),
                                                    move |args| async move {
                                                        let agentflow_call_0 = archive;
                                                        #[allow(
                                                            unused_variables,
                                                            unused_mut,
                                                            clippy::let_unit_value
                                                        )]
                                                        let (cx, (order,)) = args
                                                            .calling([__private::function_id(&agentflow_call_0)])
                                                            .await;
                                                        #[allow(clippy::let_and_return)]
                                                        {
                                                            let ended: Result<String> = agentflow_call_0(order).await;
                                                            ended
                                                        }
                                                    },
                                                )
                                        },
                                    );
                                let arms = __private::Arms::arm(arms, arm);
                                steps.join(router, arms)
                            };
                            __private::Output(&bound_3).owned();
                            last
                        },
                    );
                let arms = __private::Arms::arm(arms, arm);
                let arm = steps
                    .arm(
                        router,
                        "Other",
                        |steps| {
                            steps
                                .value::<_, _, _>(
                                    __private::Node::new("yield")
                                        .line(::core::line!())
                                        .code(14286503816170804410u64),
                                    (),
                                    move |values| {
                                        #[allow(
                                            unused_variables,
                                            unused_mut,
                                            clippy::let_unit_value
                                        )]
                                        let () = values;
                                        #[allow(clippy::let_and_return)]
                                        {
                                            let ended: Result<String> = Ok("ask a person".to_owned());
                                            ended
                                        }
                                    },
                                )
                        },
                    );
                let arms = __private::Arms::arm(arms, arm);
                steps.join(router, arms)
            };
            __private::Output(&bound_1).owned();
            last
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        answer) }, item : || __private::Box::new(__private::LinkedWorkflow::new("answer",
        (__private::file!(), __private::line!()), < answer as __private::WorkflowFn1 >
        ::GRAPH)), }
    }
};
