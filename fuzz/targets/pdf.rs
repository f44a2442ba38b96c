#![no_main]

use std::{panic, thread};

// The reader of PDF may panic: it has a thread of its own, where that is caught. libFuzzer ends at
// any panic, so that those are kept from it.
libfuzzer_sys::fuzz_target!(
    init: {
        let ends = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some("pdf") {
                ends(info);
            }
        }));
    },
    |data: &[u8]| marquetry_extract::fuzz::pdf(data)
);
