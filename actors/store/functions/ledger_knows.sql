-- Whether a call has ended in the ledger: it has its row, or recovery settled it.
CREATE OR REPLACE FUNCTION ledger_knows(p_call uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM recovered_calls r WHERE r.call_id = p_call)
        OR EXISTS (SELECT FROM call_logs l WHERE l.request_id = p_call)
$$;
