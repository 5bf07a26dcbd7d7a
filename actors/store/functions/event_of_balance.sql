-- Writes `balance.low` for each amount that a booking took the settled balance across, from above to it or below. What a
-- balance rises above is armed again by that.
CREATE OR REPLACE FUNCTION event_of_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM event_write(NEW.id, 'balance.low', json_build_object(
        'threshold_usd', usd_text(threshold), 'balance_usd', usd_text(NEW.balance_nano_usd)))
    FROM unnest(NEW.balance_alerts_nano_usd) threshold
    WHERE OLD.balance_nano_usd > threshold AND NEW.balance_nano_usd <= threshold;
    RETURN NULL;
END $$;
