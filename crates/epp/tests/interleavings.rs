//! Checks the hand-off between waiting requests and free room in every order in which threads can run, up to a number of
//! preemptions. The code is the picker's own file, with the types of the model checker loom in place of those of `src/sync.rs`.

#[path = "../src/gate.rs"]
#[expect(dead_code, reason = "the picker uses more of it")]
mod gate;

mod sync {
    pub(crate) use loom::sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    };

    /// loom's mutex, with the interface of parking_lot.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no thread panics under the lock")
        }
    }
}

use gate::{EnqueueError, Gate, Next, Permit};
use longboat_scheduler::{
    config::EndpointPickerConfig,
    flow::{Arrival, Settings},
};
use sync::{Arc, AtomicU64, Mutex, Ordering};

const CONFIG: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
flowControl: {maxRequests: 8}
";

const ARRIVAL: Arrival<'_> = Arrival { priority: 0, flow: "a", bytes: 1, within_ms: None };

/// A pool with room for one request.
struct Pool {
    gate: Gate<usize>,
    /// Under a lock, as the load of endpoints is in the picker.
    in_flight: Mutex<u64>,
    /// The permit of each admitted request.
    permits: Vec<Mutex<Option<Permit>>>,
    served: AtomicU64,
}

impl Pool {
    fn new(settings: &Settings, requests: usize) -> Arc<Self> {
        Arc::new(Self {
            gate: Gate::new(settings.clone()),
            in_flight: Mutex::new(0),
            permits: (0..requests).map(|_| Mutex::new(None)).collect(),
            served: AtomicU64::new(0),
        })
    }

    /// Admits requests while there is room, as a thread does after each arrival and each end of a request.
    fn turn(&self) {
        let saturation = || {
            // The lock is held for both values. Otherwise, a request that becomes in flight between them would count in neither.
            let in_flight = self.in_flight.lock();
            let used = *in_flight + self.gate.admitted();
            if used >= 1 { 1.0 } else { 0.0 }
        };
        while let Next::Admitted(request, permit) = self.gate.next(saturation, 0) {
            let before = self.permits[request].lock().replace(permit);
            assert!(before.is_none(), "request {request} goes on once");
        }
    }

    /// Sends an admitted request, and ends it. Returns whether it was admitted.
    fn serve(&self, request: usize) -> bool {
        let Some(permit) = self.permits[request].lock().take() else { return false };
        // It counts as in flight before it no longer counts as admitted.
        let in_flight = {
            let mut in_flight = self.in_flight.lock();
            *in_flight += 1;
            *in_flight
        };
        assert_eq!(in_flight, 1, "the pool has room for one");
        drop(permit);
        *self.in_flight.lock() -= 1;
        self.served.fetch_add(1, Ordering::Relaxed);
        self.turn();
        true
    }
}

/// Runs a check in every order. Threads of the model have small stacks, so the configuration is read before.
fn model(check: impl Fn(&Settings) + Sync + Send + 'static) {
    let config = EndpointPickerConfig::parse(CONFIG).expect("the text is a configuration");
    let settings = Settings::from_config(&config).expect("its flow control is valid");
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || check(&settings));
}

#[test]
fn no_request_is_lost_and_no_more_go_on_than_there_is_room_for() {
    model(|settings| {
        let pool = Pool::new(settings, 2);
        let threads: Vec<_> = (0..2)
            .map(|request| {
                let pool = Arc::clone(&pool);
                loom::thread::spawn(move || {
                    pool.gate.push(ARRIVAL, request, 0).unwrap();
                    pool.turn();
                    pool.serve(request);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // If a request's thread found no room, the other thread or the next turn of the dispatcher admits the request.
        pool.turn();
        while (0..2).any(|request| pool.serve(request)) {}
        assert_eq!(pool.served.load(Ordering::Relaxed), 2);
        assert!(pool.gate.is_empty());
        assert_eq!((pool.gate.admitted(), *pool.in_flight.lock()), (0, 0));
    });
}

#[test]
fn a_request_that_comes_while_the_gate_closes_is_refused_or_handed_over() {
    model(|settings| {
        let pool = Pool::new(settings, 1);
        let closing = Arc::clone(&pool);
        let closed = loom::thread::spawn(move || {
            let mut handed_over = 0;
            closing.gate.close(|_| handed_over += 1);
            handed_over
        });
        let waits = match pool.gate.push(ARRIVAL, 0, 0) {
            Ok(_) => 1,
            Err(refused) => {
                assert_eq!(refused, EnqueueError::Closed);
                0
            }
        };
        assert_eq!(closed.join().unwrap(), waits);
        assert!(pool.gate.is_empty(), "nobody waits at a closed gate");
    });
}

#[test]
fn a_request_that_gives_up_while_it_is_let_go_on_does_one_of_both() {
    model(|settings| {
        let pool = Pool::new(settings, 1);
        let ticket = pool.gate.push(ARRIVAL, 0, 0).unwrap();
        let letting = Arc::clone(&pool);
        let other = loom::thread::spawn(move || letting.turn());
        let given_up = pool.gate.cancel(ticket).is_some();
        other.join().unwrap();
        let goes_on = pool.permits[0].lock().take().is_some();
        assert!(given_up != goes_on);
        assert_eq!(pool.gate.admitted(), 0, "the permit is gone with it");
    });
}
