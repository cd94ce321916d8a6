use std::{sync::Arc, time::Duration};

use longboat_scheduler::Metrics;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{EndpointSpec, Member, Pool, for_each_member};
use crate::tests::support::desired;

fn pod(name: &str, last: u8, labels: &[(&str, &str)]) -> EndpointSpec {
    desired(name, ([10, 0, 0, last], 8000).into(), labels)
}

#[test]
fn setting_the_same_endpoints_again_changes_nothing() {
    let pool = Pool::new();
    assert!(!pool.is_synced());
    pool.set(vec![pod("a", 1, &[]), pod("b", 2, &[])]);
    assert!(pool.is_synced());
    let (before, changes) = (pool.members(), pool.changes());
    assert_eq!(pool.set(vec![pod("b", 2, &[]), pod("a", 1, &[])]), []);
    assert!(Arc::ptr_eq(&before, &pool.members()));
    assert!(!changes.has_changed().unwrap());
}

#[test]
fn an_endpoint_that_stays_keeps_its_slot_and_metrics_whatever_its_labels_do() {
    let pool = Pool::new();
    pool.set(vec![pod("a", 1, &[]), pod("b", 2, &[])]);
    let b = pool.members()[1].endpoint.slot;
    pool.members()[1].scraped(Metrics { waiting: 5.0, ..Metrics::default() });
    let freed = pool.set(vec![pod("b", 2, &[("x", "y")]), pod("c", 3, &[])]);
    assert_eq!(freed.len(), 1);
    let members = pool.members();
    let kept = members.iter().find(|member| member.endpoint.name == "b").unwrap();
    assert_eq!(kept.endpoint.slot, b);
    assert_eq!(kept.endpoint.labels["x"], "y");
    assert!((kept.snapshot(Instant::now(), None).metrics.waiting - 5.0).abs() < f64::EPSILON);
    let taken = members.iter().find(|member| member.endpoint.name == "c").unwrap();
    assert!(!freed.contains(&taken.endpoint.slot), "its old state is still there");
    pool.set(vec![pod("c", 3, &[]), pod("d", 4, &[])]);
    let taken = &pool.members()[0].endpoint;
    assert_eq!((taken.name.as_str(), taken.slot), ("d", freed[0]), "the lowest free slot is used again");
}

#[tokio::test]
async fn a_panic_in_the_task_of_an_endpoint_ends_the_task_of_the_pool() {
    let pool = Pool::new();
    pool.set(vec![pod("a", 1, &[]), pod("b", 2, &[])]);
    let all = tokio::spawn(async move {
        let task = |member: &Arc<Member>| {
            let name = member.endpoint.name.clone();
            Some(async move { assert_ne!(name, "b", "a fault of this test") })
        };
        for_each_member(&pool, &CancellationToken::new(), Arc::ptr_eq, task).await;
    });
    assert!(all.await.unwrap_err().is_panic());
}

#[test]
fn a_pod_with_a_new_address_is_a_new_endpoint() {
    let pool = Pool::new();
    pool.set(vec![pod("a", 1, &[])]);
    pool.members()[0].scraped(Metrics::default());
    assert_eq!(pool.set(vec![pod("a", 9, &[])]).len(), 1);
    assert!(!pool.members()[0].snapshot(Instant::now(), Some(Duration::from_secs(1))).fresh);
}

#[test]
fn metrics_are_fresh_from_the_first_scrape_until_they_are_old() {
    let limit = Some(Duration::from_secs(2));
    let pool = Pool::new();
    pool.set(vec![pod("a", 1, &[])]);
    let member = &pool.members()[0];
    assert!(!member.snapshot(Instant::now(), limit).fresh, "never scraped");
    member.scraped(Metrics::default());
    assert!(member.snapshot(Instant::now(), limit).fresh);
    let later = Instant::now() + Duration::from_secs(3);
    assert!(!member.snapshot(later, limit).fresh);
    assert!(member.snapshot(later, None).fresh);
}
