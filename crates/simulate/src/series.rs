//! Numbers over time, in memory that does not grow with time.

use std::time::Duration;

use serde::Serialize;

use crate::numbers::{float, ratio, rounded};

/// The points of a series over time.
pub(crate) const MAX_POINTS: usize = 200;

/// Numbers over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Series {
    /// Seconds between two points.
    pub step_seconds: f64,
    /// Requests that arrived, a second.
    pub arrivals: Vec<f64>,
    /// The mean time to the first token of the requests that got it, in milliseconds.
    pub ttft_ms: Vec<f64>,
    /// Requests in the pool and in the picker's queue, on average over arrivals.
    pub in_flight: Vec<f64>,
    /// Endpoints that can be picked, on average over arrivals.
    pub endpoints: Vec<f64>,
}

/// Points of equal length. If there are too many, two become one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Points {
    nanos: u64,
    points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Point {
    pub(crate) arrivals: u64,
    pub(crate) in_flight: u64,
    pub(crate) endpoints: u64,
    pub(crate) ttft_nanos: f64,
    pub(crate) first_tokens: u64,
}

impl Default for Points {
    fn default() -> Self {
        Self { nanos: 100_000_000, points: Vec::new() }
    }
}

impl Points {
    pub(crate) fn at(&mut self, now: u64) -> &mut Point {
        while now / self.nanos >= MAX_POINTS as u64 {
            self.nanos *= 2;
            self.points =
                self.points.chunks(2).map(|pair| pair.iter().fold(Point::default(), Point::plus)).collect();
        }
        let index = usize::try_from(now / self.nanos).unwrap_or_default();
        if self.points.len() <= index {
            self.points.resize(index + 1, Point::default());
        }
        &mut self.points[index]
    }

    pub(crate) fn series(&self) -> Series {
        let step_seconds = Duration::from_nanos(self.nanos).as_secs_f64();
        let each = |of: &dyn Fn(&Point) -> f64| self.points.iter().map(|point| rounded(of(point))).collect();
        Series {
            step_seconds,
            arrivals: each(&|point| float(point.arrivals) / step_seconds),
            ttft_ms: each(&|point| ratio(point.ttft_nanos / 1e6, float(point.first_tokens))),
            in_flight: each(&|point| ratio(float(point.in_flight), float(point.arrivals))),
            endpoints: each(&|point| ratio(float(point.endpoints), float(point.arrivals))),
        }
    }
}

impl Point {
    fn plus(sum: Self, other: &Self) -> Self {
        Self {
            arrivals: sum.arrivals + other.arrivals,
            in_flight: sum.in_flight + other.in_flight,
            endpoints: sum.endpoints + other.endpoints,
            ttft_nanos: sum.ttft_nanos + other.ttft_nanos,
            first_tokens: sum.first_tokens + other.first_tokens,
        }
    }
}
