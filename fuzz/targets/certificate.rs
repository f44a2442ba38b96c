#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| marquetry_inbound_tls::fuzz::certificate(data));
