//! The messages of a mailbox as a step sends and reads them. They are part of what the step saves; which of them a step sees
//! is decided as for the state.

use super::Context;
use crate::error::{Error, Result};
use crate::mailbox::{MOST_MESSAGE, MOST_WAITING, Mail, MailKey, MailMessage, Mailbox};
use crate::state::StateOwner;
use crate::value::Encoded;

impl Context {
    /// Sends a message from one agent of a [`Mailbox`] to another, or to itself. It is part of the record of the step's
    /// outcome: sent exactly once when the step completes, also over a crash, and never when it fails. This step and what it
    /// calls see it at once, those after it when it has completed, those beside it never.
    ///
    /// # Errors
    /// [`Error::Mailbox`] when the mailbox does not have one of the names, when the message has no JSON form that gives it
    /// back or more than 16 KiB, when 256 messages wait for that agent, and in a condition or a tap, which save nothing.
    /// [`Error::State`] when the step has saved more than 1 MiB. Nothing was sent then.
    pub fn send_mail<M: MailMessage>(&self, mailbox: &Mailbox<M>, from: &str, to: &str, message: &M) -> Result<()> {
        let refused = |problem: String| Error::Mailbox { mailbox: mailbox.name(), problem };
        let from = mailbox.known(from).map_err(refused)?;
        let to = mailbox.known(to).map_err(refused)?;
        self.mail_writable(mailbox)?;
        let encoded = message
            .encode()
            .map_err(|error| refused(format!("the message does not survive its way through JSON: {error}")))?;
        let size = encoded.as_str().len();
        if size > MOST_MESSAGE {
            return Err(refused(format!(
                "the message has {size} bytes, more than the {MOST_MESSAGE} of one; save what is large as an artifact and send \
                 its name"
            )));
        }
        let keys = mailbox.keys();
        let mut states = self.run.states_or_new();
        let seen = states.seen_by(&self.path);
        // Also those that were read: a number that was given is not given again.
        let sent = seen.changes().filter_map(|(key, value)| Some((MailKey::read(key.strip_prefix(&keys)?)?, value)));
        let (mut last, mut waiting) = (0, 0);
        for (key, value) in sent {
            last = last.max(key.number);
            waiting += usize::from(value.is_some() && *key.to == *to);
        }
        if waiting >= MOST_WAITING {
            return Err(refused(format!(
                "{waiting} messages wait for `{to}`, which is the limit; let it read them before more are sent"
            )));
        }
        let key =
            MailKey { number: last.saturating_add(1), sent_at: self.path.clone(), from: from.into(), to: to.into() };
        let key = self.with_room(&states, key.text(&keys), &encoded)?;
        states.change(&self.path, &key, Some(encoded));
        Ok(())
    }

    /// Takes all messages that wait for an agent of a [`Mailbox`], the one that was sent first at the beginning; of those
    /// that were sent side by side, in the order of the paths of their steps. They are taken when this step completes: one
    /// that fails, or is interrupted by a crash, has taken none, and sees the same ones when it runs again. Steps side by
    /// side that read for one agent each see what was sent before them.
    ///
    /// # Errors
    /// [`Error::Mailbox`] when the mailbox does not have that name, when a message is not of its type, which another version
    /// of the program may have sent, and in a condition or a tap. Nothing is taken then.
    pub fn take_mail<M: MailMessage>(&self, mailbox: &Mailbox<M>, of: &str) -> Result<Vec<Mail<M>>> {
        Ok(self.take_mail_within(mailbox, of, usize::MAX)?.0)
    }

    /// The same of as many as have so many bytes together, and at least one; and how many wait for the next time.
    pub(crate) fn take_mail_within<M: MailMessage>(
        &self,
        mailbox: &Mailbox<M>,
        of: &str,
        bytes: usize,
    ) -> Result<(Vec<Mail<M>>, usize)> {
        let refused = |problem: String| Error::Mailbox { mailbox: mailbox.name(), problem };
        let of = mailbox.known(of).map_err(refused)?;
        self.mail_writable(mailbox)?;
        let keys = mailbox.keys();
        let mut states = self.run.states_or_new();
        let seen = states.seen_by(&self.path);
        let mut waiting: Vec<(MailKey, &Encoded)> = seen
            .changes()
            .filter_map(|(key, value)| Some((MailKey::read(key.strip_prefix(&keys)?)?, value?)))
            .filter(|(key, _)| *key.to == *of)
            .collect();
        waiting.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut size = 0;
        let fits = |(_, message): &&(MailKey, &Encoded)| {
            size += message.as_str().len();
            size <= bytes
        };
        let taken = waiting.iter().take_while(fits).count().max(waiting.len().min(1));
        let left = waiting.split_off(taken).len();
        let mail = waiting.iter().map(|(key, message)| match M::decode(message) {
            Ok(message) => Ok(Mail::new(&key.from, message)),
            Err(error) => Err(refused(format!(
                "a message of `{}` is not of the type `{}`: {error}",
                key.from,
                std::any::type_name::<M>()
            ))),
        });
        let mail = mail.collect::<Result<Vec<_>>>()?;
        for (key, _) in &waiting {
            states.change(&self.path, &key.text(&keys), None);
        }
        Ok((mail, left))
    }

    fn mail_writable<M>(&self, mailbox: &Mailbox<M>) -> Result<()> {
        let refused = |error: Error| match error {
            Error::State { problem, .. } => Error::Mailbox { mailbox: mailbox.name(), problem },
            other => other,
        };
        self.writable(StateOwner::Session, String::new()).map(drop).map_err(refused)
    }
}
