-- insert --
-- Insert an agent.
INSERT INTO agents (id, account_id, name, user_name, system_prompt, model, temperature, web_search, image_generation,
                    kbs)
VALUES (%(id)s, %(account_id)s, %(name)s, %(user_name)s, %(system_prompt)s, %(model)s, %(temperature)s, %(web_search)s,
        %(image_generation)s, %(kbs)s::text[])

-- show --
-- One agent, with its account's default model.
SELECT g.id, g.account_id, g.name, g.user_name, g.system_prompt, g.model, g.temperature, g.web_search,
       g.image_generation, g.kbs, g.enabled, g.created_at, a.default_model
FROM agents g JOIN accounts a ON a.id = g.account_id
WHERE g.id = %s

-- list --
-- All agents, or those of an account, the oldest first.
SELECT g.id, g.account_id, g.name, g.user_name, g.system_prompt, g.model, g.temperature, g.web_search,
       g.image_generation, g.kbs, g.enabled, g.created_at, a.default_model
FROM agents g JOIN accounts a ON a.id = g.account_id
WHERE %(account)s::text IS NULL OR g.account_id = %(account)s ORDER BY g.created_at, g.id

-- change --
-- Change settings, as far as given.
UPDATE agents SET
    name = CASE WHEN %(set_name)s THEN %(name)s ELSE name END,
    user_name = CASE WHEN %(set_user_name)s THEN %(user_name)s ELSE user_name END,
    system_prompt = CASE WHEN %(set_system_prompt)s THEN %(system_prompt)s ELSE system_prompt END,
    model = CASE WHEN %(set_model)s THEN %(model)s ELSE model END,
    temperature = CASE WHEN %(set_temperature)s THEN %(temperature)s::float8 ELSE temperature END,
    web_search = CASE WHEN %(set_web_search)s THEN %(web_search)s ELSE web_search END,
    image_generation = CASE WHEN %(set_image_generation)s THEN %(image_generation)s ELSE image_generation END,
    kbs = CASE WHEN %(set_kbs)s THEN %(kbs)s::text[] ELSE kbs END,
    enabled = CASE WHEN %(set_enabled)s THEN %(enabled)s ELSE enabled END
WHERE id = %(id)s
