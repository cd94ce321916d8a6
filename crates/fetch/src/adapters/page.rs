//! What the loader says: the report for the controller, and whether the pod may get traffic.

use std::net::SocketAddr;

use longboat_download::adapters::{AdapterReport, READY_PATH};
use parking_lot::Mutex;

use crate::{FetchError, progress_server};

#[derive(Default)]
pub(super) struct Page {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reports: Vec<AdapterReport>,
    /// Whether every adapter was tried since the engine started. A later change of the list does not count: a pod that serves
    /// goes on serving while it downloads another adapter.
    is_ready: bool,
}

impl Page {
    /// Takes the pod out of the traffic until the adapters are back.
    pub(super) fn engine_is_down(&self) {
        let mut state = self.state.lock();
        state.is_ready = false;
        for report in &mut state.reports {
            report.loaded = false;
        }
    }

    /// Replaces the reports. `all_tried`: whether each adapter is loaded or has failed.
    pub(super) fn publish(&self, reports: Vec<AdapterReport>, all_tried: bool) {
        let mut state = self.state.lock();
        state.reports = reports;
        state.is_ready |= all_tried;
    }

    #[cfg(test)]
    pub(super) fn reports(&self) -> Vec<AdapterReport> {
        self.state.lock().reports.clone()
    }

    #[cfg(test)]
    pub(super) fn is_ready(&self) -> bool {
        self.state.lock().is_ready
    }

    /// The status and the body for a path.
    fn answer(&self, path: &str) -> (u16, String) {
        let state = self.state.lock();
        if path == READY_PATH {
            return (if state.is_ready { 200 } else { 503 }, String::new());
        }
        // The reports have no values that JSON lacks.
        (200, serde_json::to_string(&state.reports).unwrap_or_default())
    }
}

/// Serves the page until the future is dropped.
pub(super) async fn serve(address: SocketAddr, page: &Page) -> Result<(), FetchError> {
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .map_err(|error| FetchError::setting("--pod-ip", format!("cannot listen on {address}: {error}")))?;
    match progress_server::answer_all(listener, |path| page.answer(path)).await {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_stays_ready_while_it_loads_more_and_not_when_its_engine_is_gone() {
        let report = |loaded| AdapterReport { name: "a".into(), folder: "a-1".into(), loaded, error: None };
        let page = Page::default();
        let ready = || page.answer(READY_PATH).0;
        page.publish(vec![report(false)], false);
        assert_eq!(ready(), 503, "a new pod waits for its adapters");
        page.publish(vec![report(true)], true);
        assert_eq!(ready(), 200);
        page.publish(vec![report(true), report(false)], false);
        assert_eq!(ready(), 200, "an adapter was added");
        page.engine_is_down();
        assert_eq!(ready(), 503);
        let (status, body) = page.answer("/");
        let said = longboat_download::adapters::parse_report(body.as_bytes()).unwrap();
        assert_eq!((status, said), (200, vec![report(false), report(false)]));
    }
}
