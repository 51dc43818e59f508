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
#[allow(deprecated)]
const _: () = {
    impl __private::WorkflowTypes for answer {
        type Ok = <Result<String> as __private::WorkflowReturn>::Ok;
        type Error = <Result<String> as __private::WorkflowReturn>::Error;
    }
    impl answer {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(Question,), <answer as __private::WorkflowTypes>::Ok> {
            <answer as __private::WorkflowFn1>::workflow()
        }
    }
    impl __private::WorkflowFn1 for answer {
        type A = Question;
        type Return = __private::Result<
            <answer as __private::WorkflowTypes>::Ok,
            <answer as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "answer";
        const INPUTS: [&'static str; 1usize] = ["question"];
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(Question,), <answer as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(Question,), <answer as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        #[allow(
            clippy::needless_question_mark,
            clippy::too_many_lines,
            clippy::zero_prefixed_literal
        )]
        fn nodes(
            steps: &mut __private::Steps<'_, <answer as __private::WorkflowTypes>::Error>,
            (question,): (__private::Handle<Question>,),
        ) -> __private::Handle<<answer as __private::WorkflowTypes>::Ok> {
            type __AgentflowError = <answer as __private::WorkflowTypes>::Error;
            steps.describe("An `if` in an arm of a `match`, with steps in both.");
            let kind = steps
                .call::<_, _, _, _>(
                    __private::Node::new("kind").line(::core::line!()).calls("classify"),
                    (question,),
                    move |args| async move {
                        let agentflow_step = classify;
                        #[allow(unused_variables, unused_mut)]
                        let (cx, (question,)) = args.calling(&agentflow_step).await;
                        __private::Ok::<_, __AgentflowError>(agentflow_step(question).await?)
                    },
                );
            {
                let router = steps
                    .route(
                        __private::Node::new("match")
                            .line(::core::line!())
                            .calls("match kind"),
                        ["Order", "Other"],
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
                            let chosen: usize = match kind {
                                Kind::Order(number) => 0usize,
                                Kind::Other => 1usize,
                            };
                            __private::Ok::<usize, __AgentflowError>(chosen)
                        },
                    );
                let arms = __private::arms::<_>();
                let arm = steps
                    .arm(
                        router,
                        0usize,
                        |steps| {
                            let order = steps
                                .call::<_, _, _, _>(
                                    __private::Node::new("order")
                                        .line(::core::line!())
                                        .calls("find_order"),
                                    (kind,),
                                    move |args| async move {
                                        let agentflow_step = find_order;
                                        #[allow(unused_variables, unused_mut)]
                                        let (cx, (kind,)) = args.calling(&agentflow_step).await;
                                        #[allow(unused_variables, unused_mut)]
                                        #[allow(
                                            unreachable_patterns,
                                            irrefutable_let_patterns,
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
                                        __private::Ok::<_, __AgentflowError>(agentflow_step(number).await?)
                                    },
                                );
                            {
                                let router = steps
                                    .route(
                                        __private::Node::new("if")
                                            .line(::core::line!())
                                            .calls("if"),
                                        ["then", "else"],
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
                                            let chosen: usize = if order.open {
                                                0usize
                                            } else {
                                                1usize
                                            };
                                            __private::Ok::<usize, __AgentflowError>(chosen)
                                        },
                                    );
                                let arms = __private::arms::<_>();
                                let arm = steps
                                    .arm(
                                        router,
                                        0usize,
                                        |steps| {
                                            steps
                                                .call::<_, _, _, _>(
                                                    __private::Node::new("track")
                                                        .line(::core::line!())
                                                        .calls("track"),
                                                    (order,),
                                                    move |args| async move {
                                                        let agentflow_step = track;
                                                        #[allow(unused_variables, unused_mut)]
                                                        let (cx, (order,)) = args.calling(&agentflow_step).await;
                                                        #[allow(clippy::let_and_return)]
                                                        {
                                                            let ended: Result<String> = agentflow_step(order).await;
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
                                        1usize,
                                        |steps| {
                                            steps
                                                .call::<_, _, _, _>(
                                                    __private::Node::new("archive")
                                                        .line(::core::line!())
                                                        .calls("archive"),
                                                    (order,),
                                                    move |args| async move {
                                                        let agentflow_step = archive;
                                                        #[allow(unused_variables, unused_mut)]
                                                        let (cx, (order,)) = args.calling(&agentflow_step).await;
                                                        #[allow(clippy::let_and_return)]
                                                        {
                                                            let ended: Result<String> = agentflow_step(order).await;
                                                            ended
                                                        }
                                                    },
                                                )
                                        },
                                    );
                                let arms = __private::Arms::arm(arms, arm);
                                steps.join(router, arms)
                            }
                        },
                    );
                let arms = __private::Arms::arm(arms, arm);
                let arm = steps
                    .arm(
                        router,
                        1usize,
                        |steps| {
                            steps
                                .value::<_, _, _>(
                                    __private::Node::new("yield").line(::core::line!()),
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
            }
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || __private::function_id(& answer), item : ||
        __private::Box::new(__private::LinkedWorkflow::new("answer", (__private::file!(),
        __private::line!()), < answer as __private::WorkflowFn1 > ::GRAPH)), }
    }
};
