//! The condition engine.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use longboat_api::conditions::{
    Condition, ConditionStatus, Conditions, SERVICE, set_transition_times, types,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn ready(list: &[Condition]) -> (ConditionStatus, &str) {
    let ready = list.iter().find(|c| c.type_ == types::READY).unwrap();
    (ready.status, ready.reason.as_str())
}

#[test]
fn ready_follows_its_three_dependents() {
    let mut list = Vec::new();
    let mut conditions = Conditions::new(SERVICE, &mut list, at(1));
    conditions.initialize();
    conditions.mark_true(types::PRESETS_COMBINED);
    conditions.mark_true(types::WORKLOADS_READY);
    assert_eq!(conditions.get(types::READY).unwrap().status, ConditionStatus::Unknown);
    conditions.mark_true(types::ROUTER_READY);
    assert_eq!(ready(&list), (ConditionStatus::True, ""));
    let sorted: Vec<_> = list.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(sorted, ["PresetsCombined", "Ready", "RouterReady", "WorkloadsReady"]);
}

#[test]
fn false_beats_unknown_and_the_newest_false_wins() {
    let mut list = Vec::new();
    let mut conditions = Conditions::new(SERVICE, &mut list, at(1));
    conditions.initialize();
    conditions.mark_false(types::WORKLOADS_READY, "First", "");
    conditions.mark_false(types::ROUTER_READY, "Second", "");
    conditions.mark_true(types::PRESETS_COMBINED);
    assert_eq!(ready(&list), (ConditionStatus::False, "Second"));
}

#[test]
fn conditions_that_ready_does_not_depend_on_do_not_change_it_when_false() {
    let mut list = Vec::new();
    let mut conditions = Conditions::new(SERVICE, &mut list, at(1));
    for type_ in SERVICE {
        conditions.mark_true(type_);
    }
    conditions.mark_false(types::MAIN_WORKLOAD_READY, "Progressing", "");
    assert_eq!(conditions.get(types::READY).unwrap().status, ConditionStatus::True);
    conditions.clear(types::MAIN_WORKLOAD_READY);
    conditions.clear(types::READY);
    assert_eq!(list.len(), 4);
}

#[test]
fn a_roll_up_takes_the_first_false_part_and_leaves_its_message_alone() {
    let mut list = Vec::new();
    let mut conditions = Conditions::new(SERVICE, &mut list, at(1));
    conditions.mark_unknown(types::MAIN_WORKLOAD_READY, "", "");
    conditions.mark_false(types::SCALING_READY, "HPAProgressing", "50% done");
    conditions.roll_up(types::WORKLOADS_READY);
    let rolled = conditions.get(types::WORKLOADS_READY).unwrap();
    assert_eq!((rolled.reason.as_str(), rolled.message.as_str()), ("HPAProgressing", "50% done"));
}

#[test]
fn what_says_the_same_keeps_its_time() {
    let mut before = Vec::new();
    let mut conditions = Conditions::new(SERVICE, &mut before, at(1));
    conditions.initialize();
    conditions.mark_false(types::WORKLOADS_READY, "Progressing", "");
    set_transition_times(&mut before, &[], at(1));

    // A condition that changes and changes back within one reconcile keeps its time.
    let mut after = before.clone();
    let mut conditions = Conditions::new(SERVICE, &mut after, at(9));
    conditions.mark_true(types::WORKLOADS_READY);
    conditions.mark_false(types::WORKLOADS_READY, "Progressing", "");
    conditions.mark_true(types::PRESETS_COMBINED);
    set_transition_times(&mut after, &before, at(9));
    let time = |type_: &str| after.iter().find(|c| c.type_ == type_).unwrap().last_transition_time.clone();
    assert_eq!(time(types::WORKLOADS_READY), Some(Time(at(1))));
    assert_eq!(time(types::PRESETS_COMBINED), Some(Time(at(9))));
}
