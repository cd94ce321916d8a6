//! How long the CRDs take to make, and how large they are.
fn main() {
    for _ in 0..3 {
        let t = std::time::Instant::now();
        let own = longboat_api::crd::own();
        let e = t.elapsed();
        println!("{e:?} {:?}", own.iter().map(|c| c.to_string().len()).collect::<Vec<_>>());
    }
}
