//! Properties of the condition engine for random sequences of steps.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use longboat_api::conditions::{
    Condition, ConditionStatus, Conditions, SERVICE, Severity, set_transition_times, types,
};
use proptest::prelude::*;

const OTHERS: [&str; 3] = [types::MAIN_WORKLOAD_READY, types::SCALING_READY, types::GROUP_DEGRADED];

#[derive(Clone, Debug)]
enum Step {
    Initialize,
    True(&'static str, &'static str),
    False(&'static str, &'static str),
    Unknown(&'static str, &'static str),
    Clear(&'static str),
}

fn any_type() -> impl Strategy<Value = &'static str> {
    let all: Vec<&'static str> = SERVICE.iter().copied().chain(OTHERS).chain([types::READY]).collect();
    prop::sample::select(all)
}

fn any_step() -> impl Strategy<Value = Step> {
    let reason = prop::sample::select(vec!["", "A", "B"]);
    prop_oneof![
        Just(Step::Initialize),
        (any_type(), reason.clone()).prop_map(|(type_, reason)| Step::True(type_, reason)),
        (any_type(), reason.clone()).prop_map(|(type_, reason)| Step::False(type_, reason)),
        (any_type(), reason).prop_map(|(type_, reason)| Step::Unknown(type_, reason)),
        any_type().prop_map(Step::Clear),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any_step(), 0..20)
}

fn take(conditions: &mut Conditions<'_>, step: &Step) {
    match step {
        Step::Initialize => conditions.initialize(),
        Step::True(type_, reason) => conditions.mark_true_with_reason(type_, reason, ""),
        Step::False(type_, reason) => conditions.mark_false(type_, reason, "why"),
        Step::Unknown(type_, reason) => conditions.mark_unknown(type_, reason, "why"),
        Step::Clear(type_) => conditions.clear(type_),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Returns the list after the steps, which are one second apart.
fn after(steps: &[Step], mut list: Vec<Condition>, start: i64) -> Vec<Condition> {
    for (i, step) in steps.iter().enumerate() {
        let now = at(start + i64::try_from(i).unwrap());
        take(&mut Conditions::new(SERVICE, &mut list, now), step);
    }
    list
}

fn get<'a>(list: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    list.iter().find(|condition| condition.type_ == type_)
}

fn status(list: &[Condition], type_: &str) -> Option<ConditionStatus> {
    get(list, type_).map(|condition| condition.status)
}

/// Returns the status that `Ready` must have: false takes precedence over unknown, and a missing dependent counts as
/// unknown.
fn verdict(list: &[Condition]) -> ConditionStatus {
    let all: Vec<_> = SERVICE.iter().map(|type_| status(list, type_).unwrap_or_default()).collect();
    if all.contains(&ConditionStatus::False) {
        ConditionStatus::False
    } else if all.contains(&ConditionStatus::Unknown) {
        ConditionStatus::Unknown
    } else {
        ConditionStatus::True
    }
}

proptest! {
    #[test]
    fn the_list_is_sorted_by_type_without_repetition(steps in steps()) {
        let list = after(&steps, Vec::new(), 0);
        prop_assert!(list.windows(2).all(|pair| pair[0].type_ < pair[1].type_));
    }

    #[test]
    fn only_what_ready_depends_on_counts_as_an_error(steps in steps()) {
        for condition in after(&steps, Vec::new(), 0) {
            let matters = condition.type_ == types::READY || SERVICE.contains(&condition.type_.as_str());
            prop_assert_eq!(condition.severity, if matters { Severity::Error } else { Severity::Info });
        }
    }

    #[test]
    fn a_condition_that_says_the_same_keeps_its_time(steps in steps(), step in any_step()) {
        let before = after(&steps, Vec::new(), 0);
        let now = at(1_000);
        let mut list = before.clone();
        take(&mut Conditions::new(SERVICE, &mut list, now), &step);
        for condition in &list {
            let old = get(&before, &condition.type_);
            let flapped = condition.last_transition_time.as_ref().is_some_and(|time| time.0 >= now);
            let same = old.is_some_and(|old| old.equals_except_times(condition));
            // Ready may change and change back within one step.
            prop_assert!(same != flapped || condition.type_ == types::READY, "{condition:?} was {old:?}");
        }
    }

    #[test]
    fn saying_it_twice_is_saying_it_once(steps in steps(), step in any_step()) {
        let once = after(std::slice::from_ref(&step), after(&steps, Vec::new(), 0), 1_000);
        let twice = after(std::slice::from_ref(&step), once.clone(), 2_000);
        let says = |list: &[Condition]| {
            list.iter().map(|c| (c.type_.clone(), c.status, c.reason.clone())).collect::<Vec<_>>()
        };
        // Steps that set Ready itself are overruled by its dependents, so repeating them may have an effect.
        prop_assume!(!matches!(step, Step::True(types::READY, _) | Step::Unknown(..)));
        prop_assert_eq!(says(&once), says(&twice));
    }

    #[test]
    fn whatever_becomes_true_ready_follows_its_dependents(
        steps in steps(),
        type_ in any_type().prop_filter("Ready itself", |type_| *type_ != types::READY),
    ) {
        let list = after(&[Step::True(type_, "")], after(&steps, Vec::new(), 0), 1_000);
        prop_assert_eq!(status(&list, types::READY), Some(verdict(&list)));
    }

    #[test]
    fn a_dependent_that_is_false_makes_ready_false_for_its_reason(
        steps in steps(),
        type_ in prop::sample::select(SERVICE.to_vec()),
    ) {
        let list = after(&[Step::False(type_, "Newest")], after(&steps, Vec::new(), 0), 1_000);
        let ready = get(&list, types::READY).unwrap();
        prop_assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "Newest"));
    }

    #[test]
    fn an_unknown_dependent_never_hides_a_false_one(
        steps in steps(),
        type_ in prop::sample::select(SERVICE.to_vec()),
    ) {
        let list = after(&[Step::Unknown(type_, "A")], after(&steps, Vec::new(), 0), 1_000);
        let any_false = SERVICE.iter().any(|type_| status(&list, type_) == Some(ConditionStatus::False));
        let wanted = if any_false { ConditionStatus::False } else { ConditionStatus::Unknown };
        prop_assert_eq!(status(&list, types::READY), Some(wanted));
    }

    #[test]
    fn what_ready_does_not_depend_on_changes_it_only_by_becoming_true(
        steps in steps(),
        type_ in prop::sample::select(OTHERS.to_vec()),
    ) {
        let before = after(&steps, Vec::new(), 0);
        for step in [Step::False(type_, "A"), Step::Clear(type_)] {
            let list = after(&[step], before.clone(), 1_000);
            prop_assert_eq!(get(&list, types::READY), get(&before, types::READY));
        }
    }

    #[test]
    fn only_what_ready_does_not_depend_on_can_be_cleared(steps in steps(), type_ in any_type()) {
        let before = after(&steps, Vec::new(), 0);
        let list = after(&[Step::Clear(type_)], before.clone(), 1_000);
        if OTHERS.contains(&type_) {
            let rest: Vec<_> = before.into_iter().filter(|condition| condition.type_ != type_).collect();
            prop_assert_eq!(list, rest);
        } else {
            prop_assert_eq!(list, before);
        }
    }

    #[test]
    fn initialising_adds_what_is_missing_and_changes_nothing(steps in steps()) {
        let before = after(&steps, Vec::new(), 0);
        let list = after(&[Step::Initialize], before.clone(), 1_000);
        prop_assert!(before.iter().all(|condition| list.contains(condition)));
        let ready = status(&list, types::READY);
        prop_assert!(ready.is_some());
        for type_ in SERVICE.iter().filter(|type_| get(&before, type_).is_none()) {
            let wanted = if ready == Some(ConditionStatus::True) { ready } else { Some(ConditionStatus::Unknown) };
            prop_assert_eq!(status(&list, type_), wanted);
        }
    }

    #[test]
    fn grooming_leaves_no_trace_of_what_changed_back(first in steps(), second in steps()) {
        let mut before = after(&first, Vec::new(), 0);
        set_transition_times(&mut before, &[], at(100));
        let mut list = after(&second, before.clone(), 1_000);
        set_transition_times(&mut list, &before, at(5_000));
        for condition in &list {
            let same = before.iter().find(|old| old.equals_except_times(condition));
            let wanted = same.map_or(Some(Time(at(5_000))), |old| old.last_transition_time.clone());
            prop_assert_eq!(&condition.last_transition_time, &wanted);
        }
    }
}
