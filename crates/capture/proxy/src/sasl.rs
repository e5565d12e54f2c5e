//! Removes offers of channel binding. It cannot work through a proxy that terminates TLS: the
//! client would bind to the proxy's certificate, and the server compares with its own. So
//! SCRAM-SHA-256-PLUS is removed from the server's first message. libpq without TLS would abort if
//! it saw that offer; `docs/reference/capture-proxy.md` lists which combinations work.
//!
//! If the proxy has the server's own certificate, channel binding works, and nothing is removed.
//!
//! Source: PostgreSQL documentation, 54.3.1; `fe-auth.c` (`pg_SASL_init`); RFC 5929, 4.1.

use protocol::backend::tag;

/// Code of AuthenticationSASL.
const SASL: [u8; 4] = 10i32.to_be_bytes();
const BOUND: &[u8] = b"SCRAM-SHA-256-PLUS";
/// Maximum length of an answer to a StartupMessage, in bytes.
const HELD_BYTES_MAX: usize = 16 << 10;

/// Filters the server's bytes until it requests an authentication.
#[derive(Debug, Default)]
pub(super) struct BindingFilter {
    held: Vec<u8>,
}

/// Result of the filter.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FilterResult {
    /// The bytes are not sufficient for a decision.
    Wait,
    /// These bytes go to the client, and all later ones unchanged; `removed` if an offer was
    /// removed.
    Pass { bytes: Vec<u8>, removed: bool },
}

impl BindingFilter {
    /// Handles the server's next bytes.
    pub(super) fn handle_bytes(&mut self, bytes: &[u8]) -> FilterResult {
        self.held.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((message, body)) = split_message(&self.held[at..]) {
            match message[0] {
                tag::NEGOTIATE_PROTOCOL_VERSION | tag::NOTICE_RESPONSE => at += message.len(),
                tag::AUTHENTICATION if body.starts_with(&SASL) => {
                    let others = remove_binding(&body[SASL.len()..]);
                    let Some(others) = others else { break };
                    let length = (4 + SASL.len() + others.len()) as u32;
                    let mut bytes = self.held[..at].to_vec();
                    bytes.push(tag::AUTHENTICATION);
                    bytes.extend_from_slice(&length.to_be_bytes());
                    bytes.extend_from_slice(&SASL);
                    bytes.extend_from_slice(&others);
                    bytes.extend_from_slice(&self.held[at + message.len()..]);
                    return FilterResult::Pass {
                        bytes,
                        removed: true,
                    };
                }
                _ => return self.pass(),
            }
        }
        // Wait only if the request for authentication may still come.
        let may_be = match self.held.get(at) {
            None => true,
            Some(tag) => [
                tag::AUTHENTICATION,
                tag::NEGOTIATE_PROTOCOL_VERSION,
                tag::NOTICE_RESPONSE,
            ]
            .contains(tag),
        };
        match split_message(&self.held[at..]) {
            None if may_be && self.held.len() < HELD_BYTES_MAX => FilterResult::Wait,
            _ => self.pass(),
        }
    }

    /// Returns the held bytes after the end of the stream.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn pass(&mut self) -> FilterResult {
        FilterResult::Pass {
            bytes: std::mem::take(&mut self.held),
            removed: false,
        }
    }
}

/// Splits off the first message of `bytes`; returns it and its body.
fn split_message(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?) as usize;
    let message = bytes.get(..length.checked_add(1)?)?;
    Some((message, message.get(5..)?))
}

/// Removes the binding mechanism from a list of mechanisms; `None` if it is absent, or the only
/// one.
fn remove_binding(list: &[u8]) -> Option<Vec<u8>> {
    let mut others = Vec::with_capacity(list.len());
    let mut found = false;
    for name in list
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
    {
        if name == BOUND {
            found = true;
        } else {
            others.extend_from_slice(name);
            others.push(0);
        }
    }
    others.push(0);
    (found && others.len() > 1).then_some(others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OFFER: &[u8] = b"R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
    const LESS: &[u8] = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
    const VERSION: &[u8] = b"v\0\0\0\x0c\0\x03\0\0\0\0\0\0";

    fn passed(bytes: &[u8], removed: bool) -> FilterResult {
        FilterResult::Pass {
            bytes: bytes.to_vec(),
            removed,
        }
    }

    #[test]
    fn the_binding_is_taken_out_wherever_the_offer_is_cut() {
        let all = [VERSION, OFFER].concat();
        let less = [VERSION, LESS].concat();
        assert_eq!(
            BindingFilter::default().handle_bytes(&all),
            passed(&less, true)
        );
        for cut in 1..all.len() {
            let mut offers = BindingFilter::default();
            assert_eq!(
                offers.handle_bytes(&all[..cut]),
                FilterResult::Wait,
                "{cut}"
            );
            assert_eq!(
                offers.handle_bytes(&all[cut..]),
                passed(&less, true),
                "{cut}"
            );
        }
    }

    proptest! {
        /// Checks that no byte is lost or added, whatever a server sends, and however it is cut.
        #[test]
        fn what_is_said_passes_whole(
            said in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                proptest::collection::vec(prop_oneof![Just(b'R'), Just(b'N'), Just(0), Just(8)], 0..60),
            ],
            cut in 0usize..200,
        ) {
            let (first, second) = said.split_at(cut.min(said.len()));
            let mut offers = BindingFilter::default();
            let mut out = Vec::new();
            match offers.handle_bytes(first) {
                FilterResult::Pass { bytes, .. } => {
                    out.extend(bytes);
                    out.extend_from_slice(second);
                }
                FilterResult::Wait => match offers.handle_bytes(second) {
                    FilterResult::Pass { bytes, .. } => out.extend(bytes),
                    FilterResult::Wait => out.extend(offers.rest()),
                },
            }
            prop_assert_eq!(out, said);
        }
    }

    #[test]
    fn everything_else_passes_as_it_is() {
        let only = b"R\0\0\0\x1c\0\0\0\x0aSCRAM-SHA-256-PLUS\0\0";
        let ok = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
        let error = b"E\0\0\0\x0cSFATAL\0\0";
        for said in [
            LESS,
            only,
            ok,
            error,
            b"no protocol at all, and of any length",
        ] {
            assert_eq!(
                BindingFilter::default().handle_bytes(said),
                passed(said, false)
            );
        }
        let mut endless = BindingFilter::default();
        let piece = [b"R\x7f\xff\xff\xff".as_slice(), &[0; 4091]].concat();
        let answers: Vec<FilterResult> = (0..4).map(|_| endless.handle_bytes(&piece)).collect();
        assert_eq!(
            answers[..3],
            [FilterResult::Wait, FilterResult::Wait, FilterResult::Wait]
        );
        assert_eq!(answers[3], passed(&piece.repeat(4), false));
    }
}
